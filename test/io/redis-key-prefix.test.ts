import { Redis } from 'ioredis'
import { hashSecret } from '../../shared/keys/secret.ts'
import { reconcile } from '../../shared/wallet/reconcile.ts'
import { startOpenAiEmulator } from '../emulators/openai.ts'
import { delayed, path as jobsPath } from '../support/delayed/jobs.ts'
import { eventually, type Gateway, startGateway } from '../support/gateway.ts'
import { answerOf, over, submit } from '../support/jobs/gateway.ts'
import { runOperator, storesEnv } from '../support/operator.ts'
import { freshDatabase, freshRedis } from '../support/stack.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'
import { moneyEnvironment } from '../support/wallet/money.ts'
import { startWorkers } from '../support/workers.ts'

/** Two gateways with databases of their own on one Redis. */
type Tenant = { prefix: string; gateway: Gateway; database: Awaited<ReturnType<typeof freshDatabase>> }

const redis = use(test, freshRedis)
const upstream = use(test, startOpenAiEmulator)
const observer = use(
  test,
  () => new Redis(redis.url),
  it => it.disconnect(),
)
const one = use(test, () => startTenant('one:'))
const two = use(test, () => startTenant(`{two-${process.pid}}:`))
test.after.always(async () => {
  for (const tenant of [one, two]) {
    await tenant?.gateway.close()
    await tenant?.database.drop()
  }
})

async function startTenant(prefix: string): Promise<Tenant> {
  const database = await freshDatabase()
  const stores = { databaseUrl: database.url, redisUrl: redis.url, drop: async () => {} }
  const env = { ...(await moneyEnvironment(upstream.url)), REDIS_KEY_PREFIX: prefix }
  return { prefix, database, gateway: await startGateway(stores, env) }
}

const chat = { model: 'coin', max_tokens: 10, messages: [{ role: 'user', content: 'Hello' }] }

test.serial('each gateway has its own wallets, and finds and reconciles them alone', async t => {
  for (const { gateway } of [one, two]) {
    const { live } = await gateway.account()
    const response = await gateway.fetch('/v1/chat/completions', { key: live, body: chat })
    t.is(response.status, 200, await response.text())
  }
  for (const { gateway, prefix } of [one, two]) {
    const { db, redis, scripts } = gateway.services
    t.deepEqual(await gateway.settled(), [], prefix)
    t.is(await reconcile(db, redis, scripts, Date.now()), 0, prefix)
    // Loses a deposit's copy: the reconciler finds the wallet by its key.
    const [wallet] = await db.wallet.findMany()
    await redis.hset(`wallet:${wallet!.organisationId}`, 'posted', 0, 'version', 0)
    t.is(await reconcile(db, redis, scripts, Date.now()), 1, prefix)
    t.deepEqual(await gateway.settled(), [], prefix)
  }
})

test.serial('a job waits in the queue of its own gateway', async t => {
  const workers = startWorkers(two.gateway.services)
  t.teardown(() => workers.stop())
  const [waiting, run] = await Promise.all(
    [one, two].map(async ({ gateway }) => {
      const { live } = await gateway.account()
      return { live, id: (await submit(gateway, jobsPath, live, delayed())).id as string }
    }),
  )
  t.is((await over(two.gateway, run!.live, jobsPath, run!.id)).status, 'completed')
  t.is(await one.gateway.services.queues.async.getWaitingCount(), 1)
  t.is(await two.gateway.services.queues.async.getWaitingCount(), 0)
  await one.gateway.services.delayedTasks.restore('run', [waiting!.id])
  t.is(await one.gateway.services.queues.async.getWaitingCount(), 1, 'its entry is found')
})

test.serial('messages go to the channels of their own gateway', async t => {
  const heard: [channel: string, message: string][] = []
  const listener = observer.duplicate()
  t.teardown(() => listener.disconnect())
  listener.on('pmessage', (_pattern, channel: string, message: string) => heard.push([channel, message]))
  await listener.psubscribe(`${two.prefix}*`)
  const { completionSignals, limiter } = two.gateway.services

  const waiter = new AbortController()
  const waited = completionSignals.wait('job_1', 60_000, async () => false, waiter.signal)
  const subscribers = async (tenant: Tenant) =>
    Number((await observer.pubsub('NUMSUB', `${tenant.prefix}jobs:over`))[1])
  await eventually(async () => (await subscribers(two)) === 1, 'it listens')
  t.is(await subscribers(one), 0)
  await completionSignals.announce('job_1')
  waiter.abort()
  await waited

  const permit = await limiter.acquire('openai', {
    owner: 'org_1',
    deadlineMs: Date.now() + 60_000,
    signal: AbortSignal.timeout(60_000),
  })
  permit.release('limited', 1_000)
  await eventually(() => heard.length >= 2, 'both messages arrive')
  t.deepEqual(heard.slice(0, 2), [
    [`${two.prefix}jobs:over`, 'job_1'],
    [`${two.prefix}lanes`, 'openai'],
  ])
})

test.serial('the operator’s commands act on the gateway of their prefix', async t => {
  const { gateway, database, prefix } = one
  const { live } = await gateway.account()
  const ask = () => gateway.fetch('/v1/chat/completions', { key: live, body: chat })
  t.is((await ask()).status, 200)
  const env = { ...storesEnv({ databaseUrl: database.url, redisUrl: redis.url }), REDIS_KEY_PREFIX: prefix }
  const revoked = await runOperator(env, 'key', 'revoke', '--hash', hashSecret(live))
  t.is(revoked.exitCode, 0, revoked.stderr)
  const refused = await ask()
  t.is(refused.status, 401)
  t.is((await answerOf(refused)).error.code, 'revoked_api_key')
  const checked = await runOperator(env, 'ledger', 'check')
  t.is(checked.exitCode, 0, checked.stdout)
})

test.serial('every key in Redis has the prefix of its gateway', async t => {
  const keys = await observer.keys('*')
  for (const { prefix } of [one, two]) {
    const own = keys.filter(key => key.startsWith(prefix)).map(key => key.slice(prefix.length))
    for (const start of ['wallet:', 'usage', 'instances', 'keyversion:', 'bull:async:'])
      t.true(
        own.some(key => key.startsWith(start)),
        `${prefix}${start}`,
      )
  }
  t.deepEqual(
    keys.filter(key => ![one, two].some(({ prefix }) => key.startsWith(prefix))),
    [],
  )
})
