import { once } from 'node:events'
import { freePort } from '../../../dev/ports.ts'
import { startOpenAiEmulator } from '../../emulators/openai.ts'
import { observe } from '../../support/chaos.ts'
import { call, createAccount, eventually, type Process, startProcess } from '../../support/gateway.ts'
import { type Sample, samplesOf, total } from '../../support/metrics/samples.ts'
import { test } from '../../support/test.ts'
import { use, useStores } from '../../support/use.ts'
import { moneyEnvironment } from '../../support/wallet/money.ts'

/** METRICS_PORT of real processes. */

const processes: Process[] = []

const stores = useStores(test)
const upstream = use(test, startOpenAiEmulator)
const env = use(test, () => moneyEnvironment(upstream.url))
const services = use(test, () => observe(stores, env))
test.after.always(async () => {
  await Promise.all(processes.map(({ kill }) => kill()))
})

async function start(what: 'web' | 'worker', own: Record<string, string> = {}): Promise<Process> {
  const process = await startProcess(what, stores, { ...env, ...own })
  processes.push(process)
  return process
}

const address = (port: number) => `http://127.0.0.1:${port}/metrics`
const requests = 'headgate_requests_total'
const chat = { endpoint: 'POST /v1/chat/completions', status_class: '2xx' }

async function scraped(port: number): Promise<Sample[]> {
  const response = await fetch(address(port))
  if (response.status !== 200) throw new Error(`the scrape was answered with ${response.status}`)
  return samplesOf(await response.text())
}

const refused = (port: number) =>
  fetch(address(port)).then(
    () => false,
    () => true,
  )

async function ask({ url }: Process, key: string): Promise<void> {
  const body = { model: 'coin', max_tokens: 10, messages: [{ role: 'user', content: 'Hello' }] }
  const response = await call(url, '/v1/chat/completions', { key, body })
  if (response.status !== 200) throw new Error(await response.text())
  await response.text()
}

/** The processes of a primary that listen for requests. */
function webPids({ output }: Process): number[] {
  const lines = output().split('\n')
  return lines.filter(line => line.includes('"listening"')).map(line => JSON.parse(line).pid as number)
}

test.serial('without METRICS_PORT there are no metrics, and none on the port of requests', async t => {
  const web = await start('web', { METRICS_HOST: '127.0.0.1' })
  t.is((await fetch(`${web.url}/metrics`)).status, 404)
  await web.kill()
})

test.serial('one scrape has all web processes, and no counter falls when one of them dies', async t => {
  const port = await freePort()
  const web = await start('web', { WEB_CONCURRENCY: '2', METRICS_PORT: String(port) })
  await eventually(() => webPids(web).length === 2, 'both listen')
  const { live } = await createAccount(services)
  // Each request has a connection of its own: both processes get some.
  for (let i = 0; i < 20; i++) await ask(web, live)
  await eventually(async () => total(await scraped(port), requests, chat) === 20, 'all are counted')
  const before = await scraped(port)
  t.is(total(before, 'headgate_request_duration_seconds_count', { endpoint: chat.endpoint }), 20)
  t.true(total(before, 'process_resident_memory_bytes') > 0)
  t.is(new Set(before.map(({ name, labels }) => name + JSON.stringify(labels))).size, before.length)

  process.kill(webPids(web)[0]!, 'SIGKILL')
  await eventually(() => webPids(web).length === 3, 'it was replaced')
  t.is(total(await scraped(port), requests, chat), 20)
  await ask(web, live)
  await eventually(async () => total(await scraped(port), requests, chat) === 21, 'the next one is counted')

  const { child } = web
  child.kill('SIGTERM')
  if (child.exitCode === null) await once(child, 'exit')
  t.is(child.exitCode, 0)
  t.true(await refused(port))
})

test.serial('a worker has the metrics of the stores, until SIGTERM', async t => {
  const port = await freePort()
  const worker = await start('worker', { METRICS_PORT: String(port) })
  const samples = await scraped(port)
  for (const name of ['headgate_unbooked_events', 'headgate_webhook_backlog', 'headgate_held_usd'])
    t.true(
      samples.some(sample => sample.name === name),
      name,
    )
  t.is(total(samples, 'headgate_scrape_errors_total'), 0)
  t.is((await fetch(address(port).replace('/metrics', '/'))).status, 404)
  t.is((await fetch(address(port), { method: 'POST' })).status, 405)
  const { child } = worker
  child.kill('SIGTERM')
  if (child.exitCode === null) await once(child, 'exit')
  t.is(child.exitCode, 0)
  t.true(await refused(port))
})

test.serial('a METRICS_PORT in use is reported at the start', async t => {
  const taken = new URL(upstream.url).port
  for (const [what, own] of [
    ['web', {}],
    ['web', { WEB_CONCURRENCY: '2' }],
    ['worker', {}],
  ] as const) {
    const error = await t.throwsAsync(startProcess(what, stores, { ...env, ...own, METRICS_PORT: taken }))
    t.regex(error!.message, new RegExp(`configuration: METRICS_PORT: ${taken} of 127.0.0.1: another process`))
  }
})
