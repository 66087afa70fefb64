import { once } from 'node:events'
import test from 'ava'
import type { Services } from '../shared/services.ts'
import type { Emulator } from './emulators/emulator.ts'
import { billingFaults, breaches, Load, observe, quiet, shoot, startSlowUpstream } from './support/chaos.ts'
import { createAccount, eventually, freshStores, type Process, type Stores, startProcess } from './support/gateway.ts'
import { moneyEnvironment } from './support/money.ts'

let stores: Stores
let upstream: Emulator
let env: Record<string, string>
let services: Services
const processes: Process[] = []

test.before(async () => {
  stores = await freshStores()
  upstream = await startSlowUpstream(60, 25)
  env = await moneyEnvironment(upstream.url)
  services = await observe(stores, env)
})
test.after.always(async () => {
  await Promise.all(processes.map(({ kill }) => kill()))
  await services?.close()
  await upstream?.close()
  await stores?.drop()
})

async function start(what: 'web' | 'worker'): Promise<Process> {
  const process = await startProcess(what, stores, env)
  processes.push(process)
  return process
}

/** Sends SIGTERM and waits for the end: how, and after how long. */
async function terminate({ child }: Process): Promise<{ exitCode: number | null; tookMs: number }> {
  const startedMs = Date.now()
  child.kill('SIGTERM')
  if (child.exitCode === null) await once(child, 'exit')
  return { exitCode: child.exitCode, tookMs: Date.now() - startedMs }
}

test.serial('200s in flight finish when a web process is told to stop, settled and with exit code 0', async t => {
  const web = await start('web')
  const { live, organisationId } = await createAccount(services)
  const flights = Promise.all(Array.from({ length: 30 }, (_, i) => shoot(web.url, live, i % 3 !== 0)))
  await eventually(() => upstream.requests.length >= 30, 'all are under way')
  const { exitCode, tookMs } = await terminate(web)
  const shots = await flights
  t.true(shots.every(({ whole }) => whole))
  t.is(exitCode, 0, web.output())
  t.true(tookMs < 20_000, `${tookMs} ms`)
  // It said goodbye: nothing is reserved any more, and every usage event waits for a worker.
  t.is((await services.accounts.view(organisationId)).reservedNano, 0n)
  t.is(await services.redis.xlen('usage'), 30)
  await t.throwsAsync(fetch(`${web.url}/healthz`))

  const worker = await start('worker')
  await quiet(services)
  t.deepEqual(await billingFaults(services, { organisationId, shots }), [])
  t.deepEqual(await breaches(services), [])
  t.is((await terminate(worker)).exitCode, 0)
})

test.serial('200s are booked by the other worker when one is told to stop', async t => {
  const [web, first, second] = await Promise.all([start('web'), start('worker'), start('worker')])
  const { live, organisationId } = await createAccount(services)
  const load = new Load(() => [web.url], live, 12)
  await load.more(12)
  const { exitCode, tookMs } = await terminate(first)
  t.is(exitCode, 0, first.output())
  t.true(tookMs < 10_000, `${tookMs} ms`)
  await load.more(12)
  await load.stop()
  await quiet(services)
  t.true(load.shots.every(({ whole }) => whole))
  t.deepEqual(await billingFaults(services, { organisationId, shots: load.shots }), [])
  t.deepEqual(await breaches(services), [])
  t.is((await terminate(second)).exitCode, 0)
  t.is((await terminate(web)).exitCode, 0)
})
