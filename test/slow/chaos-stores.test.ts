import { migrate } from '../../dev/migrate.ts'
import type { Services } from '../../shared/open-services.ts'
import type { Emulator } from '../emulators/emulator.ts'
import { startOpenAiEmulator } from '../emulators/openai.ts'
import { billingFaults, breaches, observe, quiet, type Shot, shoot } from '../support/chaos.ts'
import { createAccount, eventually, type Process, startProcess } from '../support/gateway.ts'
import { type PrivateServer, privatePostgres, privateRedis } from '../support/stack.ts'
import { test } from '../support/test.ts'
import { moneyEnvironment } from '../support/wallet/money.ts'

let postgres: PrivateServer
let redis: PrivateServer
let upstream: Emulator
let services: Services
let web: Process
let worker: Process

test.before(async () => {
  ;[postgres, redis, upstream] = await Promise.all([privatePostgres(), privateRedis(), startOpenAiEmulator()])
  await migrate(postgres.url)
  const stores = { databaseUrl: postgres.url, redisUrl: redis.url }
  const env = await moneyEnvironment(upstream.url)
  services = await observe(stores, env)
  ;[web, worker] = await Promise.all([startProcess('web', stores, env), startProcess('worker', stores, env)])
})
test.after.always(async () => {
  await Promise.all([web?.kill(), worker?.kill()])
  await services?.close()
  await upstream?.close()
  await Promise.all([postgres?.stop(), redis?.stop()])
})

const volley = (key: string, count: number) =>
  Promise.all(Array.from({ length: count }, (_, i) => shoot(web.url, key, i % 2 === 0)))

function statuses(shots: Shot[]): (number | string)[] {
  return [...new Set(shots.map(({ status, code }) => code ?? status))]
}

test.serial('200 while Postgres is away, booked once it is back', async t => {
  t.timeout(120_000)
  const known = await createAccount(services, { monthly_spend_cap_usd: 5 })
  const stranger = await createAccount(services)
  const shots = await volley(known.live, 10)
  await quiet(services)

  await postgres.kill()
  for (let round = 0; round < 4; round++) shots.push(...(await volley(known.live, 10)))
  const refused = await volley(stranger.live, 4)
  t.deepEqual(statuses(shots), [200], 'no Postgres on the way of a known key')
  t.deepEqual(statuses(refused), ['service_unavailable'], 'never 401 and never free')
  t.true(refused.every(({ status, retryAfter }) => status === 503 && retryAfter !== null))
  t.is((await fetch(`${web.url}/readyz`)).status, 503)
  t.is((await fetch(`${web.url}/healthz`)).status, 200)
  // The worker has the events in hand and cannot book them.
  await eventually(() => worker.output().includes('ledger batch failed'), 'the worker noticed')
  t.is(await services.redis.xlen('usage'), 40)
  t.is(await services.redis.xlen('usage:dead'), 0, 'an unreachable Postgres is no fault of the events')

  await postgres.restart()
  await quiet(services)
  t.deepEqual(await billingFaults(services, { ...known, shots }), [])
  t.deepEqual(await billingFaults(services, { ...stranger, shots: refused }), [])
  t.deepEqual(await breaches(services), [])
  await eventually(async () => (await fetch(`${web.url}/readyz`)).ok, 'the web process is ready again')
  t.deepEqual(statuses(await volley(stranger.live, 4)), [200])
  await quiet(services)
})

test.serial('503 while Redis is away, 200 by itself once it is back', async t => {
  t.timeout(120_000)
  const { live, test: sandbox, organisationId } = await createAccount(services)
  const shots = await volley(live, 6)
  await redis.kill()
  for (const key of [live, sandbox, live]) {
    const refused = await volley(key, 6)
    t.deepEqual(statuses(refused), ['service_unavailable'])
    t.true(refused.every(({ status, retryAfter }) => status === 503 && Number(retryAfter) >= 1))
    if (key === live) shots.push(...refused)
  }
  for (const path of ['/v1/balance', '/v1/models'])
    t.is((await fetch(web.url + path, { headers: { authorization: `Bearer ${live}` } })).status, 503, path)
  t.is(worker.child.exitCode, null)
  await redis.restart()
  await eventually(async () => {
    const shot = await shoot(web.url, live, false)
    shots.push(shot)
    return shot.status === 200
  }, 'requests are served again')
  shots.push(...(await volley(live, 6)))
  t.deepEqual(statuses(shots.slice(-6)), [200])
  await quiet(services)
  t.deepEqual(await billingFaults(services, { organisationId, shots }), [])
  t.deepEqual(await breaches(services), [])
})
