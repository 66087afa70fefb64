import { join } from 'node:path'
import { addStoreMetrics } from '../../../workers/store-metrics.ts'
import { saying, startWorld } from '../../support/chat/gateway.ts'
import { promtool } from '../../support/metrics/promtool.ts'
import { grown, growth, measured } from '../../support/metrics/samples.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

/** Prometheus' own checker on what processes answer, and on the rules that operators load. */

const rules = join(import.meta.dirname, '../../../ops/prometheus')

const world = use(test, () => startWorld(measured))

test('a scrape is valid in format, names and types', async t => {
  const { gateway } = world
  const metrics = gateway.services.metrics!
  metrics.addProcessMetrics()
  addStoreMetrics(gateway.services)
  const { live } = await gateway.account()
  const by = await growth(gateway)
  for (const stream of [false, true])
    await (
      await gateway.fetch('/v1/chat/completions', { key: live, body: saying('gpt-4o-mini', 'Hi', { stream }) })
    ).text()
  await grown(by, 2, 'headgate_requests_total', { status_class: '2xx' })
  const scrape = await metrics.render()
  const { exitCode, output } = await promtool(['check', 'metrics'], scrape)
  // Its advice on names is not followed for those of Node.js, which dashboards expect.
  const own = output.split('\n').filter(line => /^(headgate|gen_ai)_/.test(line))
  t.deepEqual(own, [])
  t.not(exitCode, 1, output)
  t.is((await promtool(['check', 'metrics'], scrape.replace('le="+Inf"', 'le="none'))).exitCode, 1)
})

test('the configuration and the alerts are valid, and the alerts fire when they should', async t => {
  for (const args of [
    ['check', 'rules', join(rules, 'alerts.yml')],
    ['check', 'config', join(rules, 'prometheus.yml')],
    ['test', 'rules', join(rules, 'alerts.test.yml')],
  ]) {
    const { exitCode, output } = await promtool(args)
    t.is(exitCode, 0, output)
  }
})
