import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { freePort } from '../../../dev/ports.ts'
import { billingFaults, breaches, Load, observe, quiet, shoot, startSlowUpstream } from '../../support/chaos.ts'
import { createAccount, eventually, type Process, startProcess } from '../../support/gateway.ts'
import { startBalancer } from '../../support/io/balancer.ts'
import { test } from '../../support/test.ts'
import { use, useStores } from '../../support/use.ts'
import { moneyEnvironment } from '../../support/wallet/money.ts'

const processes: Process[] = []

const stores = useStores(test)
const upstream = use(test, () => startSlowUpstream(60, 25))
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
  t.is((await services.wallets.view(organisationId)).reservedNano, 0n)
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

test.serial(
  '503 on /readyz while a stopping process still serves, and an error event when its time is over',
  async t => {
    const slow = await startSlowUpstream(1_000, 50)
    t.teardown(() => slow.close())
    const web = await start('web', {
      OPENAI_BASE_URL: `${slow.url}/v1`,
      SHUTDOWN_DRAIN_MS: '2000',
      SHUTDOWN_GRACE_MS: '3000',
    })
    const { live, organisationId } = await createAccount(services)
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
    t.teardown(() => agent.destroy())
    const get = (path: string, own?: http.Agent) =>
      new Promise<http.IncomingMessage>((resolve, reject) => {
        const options = own ? { agent: own } : { headers: { connection: 'keep-alive' } }
        http.get(web.url + path, options, response => resolve(response.resume())).once('error', reject)
      })
    const first = await get('/healthz', agent)
    t.is(first.headers.connection, 'keep-alive')
    t.is(first.headers['keep-alive'], 'timeout=95')
    const stream = shoot(web.url, live, true)
    await eventually(() => slow.requests.length === 1, 'a stream is under way')

    web.child.kill('SIGTERM')
    await eventually(async () => (await get('/readyz')).statusCode === 503, 'it says that it is stopping')
    for (const own of [agent, undefined]) {
      const served = await get('/healthz', own)
      t.deepEqual([served.statusCode, served.headers.connection], [200, 'close'])
    }
    const shot = await stream
    t.like(shot, { status: 200, whole: false, code: 'service_unavailable' })
    if (web.child.exitCode === null) await once(web.child, 'exit')
    t.is(web.child.exitCode, 0, web.output())

    const worker = await start('worker')
    await quiet(services)
    const [booked] = await services.db.generation.findMany({ where: { organisationId } })
    t.is(booked!.errorCode, 'service_unavailable')
    t.true(booked!.costNano > 0n)
    t.deepEqual(await breaches(services), [])
    await terminate(worker)
  },
)

test.serial('exit 1 with one line where the port is taken, also of several processes behind one port', async t => {
  const taken = http.createServer((_, response) => response.writeHead(404).end()).listen(0, '127.0.0.1')
  t.teardown(() => taken.close())
  await once(taken, 'listening')
  const { port } = taken.address() as AddressInfo
  for (const WEB_CONCURRENCY of ['1', '2']) {
    const failed = await t.throwsAsync(start('web', { PORT: String(port), WEB_CONCURRENCY }))
    const lines = failed.message.split('\n').filter(line => line !== '')
    t.true(lines.length <= Number(WEB_CONCURRENCY), failed.message)
    for (const line of lines) t.regex(line, /configuration: PORT: \d+ of 127.0.0.1: .*EADDRINUSE/)
  }
})

test.serial('200s only while two web processes are restarted twice each, one at a time', async t => {
  t.timeout(120_000)
  const quick = await startSlowUpstream(5, 60)
  const own = { OPENAI_BASE_URL: `${quick.url}/v1`, SHUTDOWN_DRAIN_MS: '500', SHUTDOWN_GRACE_MS: '20000' }
  const ports = await Promise.all([freePort(), freePort()])
  const startWeb = (port: number) => start('web', { ...own, PORT: String(port) })
  const [webs, worker, balancer] = await Promise.all([
    Promise.all(ports.map(startWeb)),
    start('worker'),
    startBalancer(ports),
  ])
  const { live, organisationId } = await createAccount(services)
  const agents = [true, false].map(keepAlive => new http.Agent({ keepAlive }))
  t.teardown(async () => {
    for (const agent of agents) agent.destroy()
    await Promise.all([balancer.close(), quick.close()])
  })
  const loads = agents.map(agent => new Load(() => [balancer.url], live, 3, agent))
  for (let round = 0; round < 2; round++) {
    for (const [i, port] of ports.entries()) {
      await Promise.all(loads.map(load => load.more(10)))
      t.is((await terminate(webs[i]!)).exitCode, 0, webs[i]!.output())
      webs[i] = await startWeb(port)
    }
  }
  await Promise.all(loads.map(load => load.more(10)))
  await Promise.all(loads.map(load => load.stop()))
  await quiet(services)
  const shots = loads.flatMap(load => load.shots)
  t.deepEqual(
    shots.filter(({ whole }) => !whole),
    [],
    `of ${shots.length} requests`,
  )
  t.deepEqual(await billingFaults(services, { organisationId, shots }), [])
  t.deepEqual(await breaches(services), [])
  await Promise.all([...webs, worker].map(terminate))
})
