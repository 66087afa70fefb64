import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { HousekeepingWatch } from '../../shared/alerts/housekeeping-watch.ts'
import { addStoreMetrics } from '../../workers/store-metrics.ts'
import { measured, typesOf } from '../support/metrics/samples.ts'
import { test } from '../support/test.ts'
import { use, useGateway } from '../support/use.ts'

/** The metrics that the dashboard, the alerts and the documentation name are those that processes have. */

const root = join(import.meta.dirname, '../..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

const gateway = useGateway(test, measured)
test.before(() => {
  gateway.services.metrics!.addProcessMetrics()
  addStoreMetrics(gateway.services)
  new HousekeepingWatch(gateway.services)
})
const types = use(test, async () => typesOf(await gateway.services.metrics!.render()))

/** The metrics that a text names; a histogram by one of its parts. */
function namedIn(text: string): string[] {
  const names = text.match(/\b(?:headgate|gen_ai|nodejs|process)_[a-z0-9_]+/g) ?? []
  const labels = new Set(['gen_ai_operation_name', 'gen_ai_provider_name', 'gen_ai_request_model'])
  const whole = names.map(name => {
    const base = name.replace(/_(?:bucket|sum|count)$/, '')
    return types.get(base) === 'histogram' ? base : name
  })
  return [...new Set(whole)].filter(name => !labels.has(name))
}

/** The queries of the dashboard. */
function queries(): string {
  const { panels } = JSON.parse(read('ops/grafana/headgate.json')) as { panels: { targets?: { expr: string }[] }[] }
  return panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)).join('\n')
}

test('every metric of the dashboard and of the alerts exists', t => {
  for (const text of [queries(), read('ops/prometheus/alerts.yml'), read('ops/prometheus/alerts.test.yml')]) {
    const named = namedIn(text)
    t.true(named.length > 10)
    t.deepEqual(
      named.filter(name => !types.has(name)),
      [],
    )
  }
})

test('rates are of counters and histograms only', t => {
  const rated = [...`${queries()}\n${read('ops/prometheus/alerts.yml')}`.matchAll(/\b(?:rate|increase)\((\w+)/g)]
  t.true(rated.length > 20)
  const gauges = rated.flatMap(([, name]) => namedIn(name!)).filter(name => types.get(name) === 'gauge')
  t.deepEqual(gauges, [])
})

test('the dashboard shows every metric of our own', t => {
  const shown = new Set(namedIn(queries()))
  const own = [...types.keys()].filter(name => /^(headgate|gen_ai)_/.test(name))
  t.deepEqual(
    own.filter(name => !shown.has(name)),
    [],
  )
})

test('the documentation has every metric of our own with its type, and no other', t => {
  const rows = [...read('docs/metrics.md').matchAll(/^\| `(\w+)` \| (\w+) \|/gm)].map(([, name, type]) => [name, type])
  const own = [...types].filter(([name]) => /^(headgate|gen_ai)_/.test(name))
  t.deepEqual(rows.sort(), own.sort())
})
