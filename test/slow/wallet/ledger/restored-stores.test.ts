// A Redis or a PostgreSQL that is replaced by an older one, while processes run and no connection breaks.

import { Redis } from 'ioredis'
import { operatorActor } from '../../../../shared/io/audit.ts'
import { breaches } from '../../../support/chaos.ts'
import { eventually, freshStores, type Gateway, type Stores, startGateway } from '../../../support/gateway.ts'
import { restoreSnapshot, takeSnapshot } from '../../../support/io/redis-snapshot.ts'
import { test } from '../../../support/test.ts'
import { use } from '../../../support/use.ts'
import { moneyEnvironment } from '../../../support/wallet/money.ts'
import { startPayingUpstream } from '../../../support/wallet/paying-upstream.ts'

let stores: Stores
let gateway: Gateway
let redis: Redis

const upstream = use(test, startPayingUpstream)
const env = use(test, () => moneyEnvironment(upstream.url))
test.beforeEach(async () => {
  stores = await freshStores()
  gateway = await startGateway(stores, env)
  redis = new Redis(stores.redisUrl)
})
test.afterEach.always(async () => {
  redis?.disconnect()
  await gateway?.close()
  await stores?.drop()
})

/** Sends a request that costs two micro-dollars a token, and returns its status. */
async function ask(key: string, max_tokens: number, to = gateway): Promise<number> {
  const body = { model: 'coin', max_tokens, messages: [{ role: 'user', content: 'Hi' }] }
  const response = await to.fetch('/v1/chat/completions', { key, body })
  await response.text()
  await to.services.admission.flush()
  return response.status
}

const burst = async (key: string, to = gateway) => [
  ...new Set(await Promise.all(Array.from({ length: 20 }, () => ask(key, 1_000, to)))),
]
/** Waits until processes know a number that a snapshot of now does not have. */
async function outdate(...processes: Gateway[]): Promise<void> {
  const number = Number(await redis.hget('generation', 'number'))
  const knows = ({ services: { wallets, scripts } }: Gateway) =>
    wallets.generations.known[scripts.shards.only.index]!.atLeast > number
  await eventually(() => processes.every(knows), 'the processes know a later number')
}

test.serial('402 for a burst after Redis was replaced by an older one: neither wallet nor cap is exceeded', async t => {
  const rich = await gateway.account({ monthly_spend_cap_usd: 0.5 })
  const poor = await gateway.account({ usd: '2' })
  for (const { live } of [rich, poor]) t.is(await ask(live, 1_000), 200)
  t.deepEqual(await gateway.settled(), [])
  const yesterday = await takeSnapshot(redis)
  await outdate(gateway)
  for (let i = 0; i < 2; i++) t.is(await ask(rich.live, 100_000), 200)
  for (let i = 0; i < 9; i++) t.is(await ask(poor.live, 100_000), 200)
  for (const { live } of [rich, poor])
    for (const tokens of [40_000, 1_000])
      for (let i = 0, status = 200; status === 200 && i < 50; i++) status = await ask(live, tokens)
  for (const { live } of [rich, poor]) t.deepEqual(await burst(live), [402])
  t.deepEqual(await gateway.settled(), [])
  const { balanceNano } = await gateway.services.wallets.view(poor.organisationId)

  await restoreSnapshot(redis, yesterday)
  const [ofRich, ofPoor] = await Promise.all([burst(rich.live), burst(poor.live)])
  t.deepEqual([ofRich, ofPoor], [[402], [402]])
  t.is((await gateway.services.wallets.view(poor.organisationId)).balanceNano, balanceNano)
  await gateway.settled()
  t.deepEqual(await breaches(gateway.services), [])
})

test.serial('401 for a key that was revoked after the snapshot, also where another process had its policy', async t => {
  const other = await startGateway(stores, env)
  t.teardown(() => other.close())
  const { live, organisationId } = await gateway.account()
  for (const to of [gateway, other]) t.is(await ask(live, 10, to), 200)
  const yesterday = await takeSnapshot(redis)
  await outdate(gateway, other)
  const key = await gateway.services.db.apiKey.findFirstOrThrow({ where: { organisationId, environment: 'live' } })
  await gateway.services.keys.revoke(organisationId, key.hash, operatorActor)
  await restoreSnapshot(redis, yesterday)
  for (const to of [other, gateway]) t.deepEqual(await burst(live, to), [401])
})

test.serial('402 where PostgreSQL was restored from before a deposit, and Redis still has it', async t => {
  const { live, organisationId } = await gateway.account({ usd: '0' })
  t.is(await ask(live, 10), 402)
  const { db, wallets } = gateway.services
  const settings = await db.setting.findMany()
  await outdate(gateway)
  await wallets.deposit({ organisationId, amountNano: 1_000_000_000n, method: 'grant' })
  t.is(await ask(live, 10), 200)
  t.deepEqual(await gateway.settled(), [])
  // As it was before the deposit.
  await db.ledgerEntry.deleteMany({ where: { organisationId } })
  await db.wallet.update({ where: { organisationId }, data: { balanceNano: 0n, version: 0n } })
  for (const { name, value } of settings) await db.setting.update({ where: { name }, data: { value } })
  const restarted = await startGateway(stores, env)
  t.teardown(() => restarted.close())
  t.deepEqual(await burst(live, restarted), [402])
  t.deepEqual(await burst(live), [402], 'the process that was running')
})

test.serial('200 after Redis was emptied, and no older store is reported while both are of the same time', async t => {
  const { live } = await gateway.account({ usd: '1' })
  t.is(await ask(live, 10), 200)
  for (let i = 0; i < 3; i++) await gateway.services.wallets.generations.advance()
  t.is(await redis.hget('generation', 'valid_since'), '1')
  await outdate(gateway)
  t.is(await redis.hget('generation', 'valid_since'), '1')
  t.deepEqual(await gateway.settled(), [])
  await redis.flushdb()
  t.deepEqual(await burst(live), [200])
  t.deepEqual(await gateway.settled(), [])
})
