import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { Redis } from 'ioredis'
import { checkReadiness } from '../../../api/readiness.ts'
import type { GatewayError } from '../../../shared/base/errors.ts'
import { isOutage } from '../../../shared/io/outage.ts'
import { openRequestRedis, waitUntilReady } from '../../../shared/io/redis.ts'
import { listRedisWarnings } from '../../../shared/io/redis-start.ts'
import { Load } from '../../chaos/load.ts'
import { type Providers, startProviders } from '../../chaos/providers.ts'
import { seededRandom } from '../../chaos/random.ts'
import { findBreaches, rest, summarise } from '../../chaos/verdict.ts'
import { openWorld, type World } from '../../chaos/world.ts'
import { SessionEmulator } from '../../emulators/sessions.ts'
import { observe } from '../../support/chaos.ts'
import { createAccount, eventually } from '../../support/gateway.ts'
import {
  byMinute,
  chargesOf,
  nothingLeft,
  providerSettings,
  stretchNano,
  talk,
} from '../../support/realtime/sessions.ts'
import { clusterFlags, privateCluster, privateRedis } from '../../support/stack.ts'
import { Receiver } from '../../support/webhooks/receiver.ts'

const prefix = '{headgate}:'
const loadMs = 8_000
const restWithinMs = 60_000

let providers: Providers
let sessions: SessionEmulator
let receiver: Receiver
let world: World

test.before(async () => {
  ;[providers, sessions, receiver] = await Promise.all([
    startProviders(seededRandom(1)),
    SessionEmulator.start(() => {}),
    Receiver.start(),
  ])
  const env = {
    ...providerSettings(sessions),
    ...providers.env,
    ALLOW_PRIVATE_URLS: 'true',
    SIGNING_SECRET: 'a signing secret of the cluster run, long enough',
    JOB_HOLD_BACK_1H_SECONDS: '0',
    REDIS_KEY_PREFIX: prefix,
  }
  world = await openWorld(env, { startRedis: privateCluster })
  await world.allUp()
})
test.after.always(async () => {
  await world?.close()
  await Promise.all([providers?.close(), sessions?.close(), receiver?.close()])
})

test.serial('chat, streams, embeddings, images, videos, delayed jobs, batches and webhooks work', async t => {
  t.timeout(180_000)
  const account = await createAccount(world.services, { usd: '5000' })
  const agents = await createAccount(world.services, { usd: '5000' })
  const load = new Load(world.webUrls, { key: account.live, agentKey: agents.live }, receiver.url, seededRandom(2))
  await sleep(loadMs)
  await load.stop()
  const { left } = await rest(world.services, restWithinMs)
  t.deepEqual(left, { jobs: 0, batches: 0, webhooks: 0, reservations: 0, usageEvents: 0 })
  t.log(summarise(load).join(', '))
  for (const kind of ['chat', 'stream', 'embedding', 'image'])
    t.true(load.directs.filter(direct => direct.kind === kind && direct.outcome === 'whole').length > 0, kind)
  t.deepEqual([...new Set(load.submissions.map(({ kind }) => kind))].sort(), ['batch', 'job', 'video'])
  t.deepEqual(await findBreaches(world, { account, agents }, load, receiver, providers), [])
  t.true(await world.services.redis.exists('lane:groq', 'lane:together', 'lane:fireworks').then(count => count > 0))
})

test.serial('a realtime session is charged and releases its slot', async t => {
  const account = await createAccount(world.services)
  const session = await talk({ gateway: { url: world.webUrls[0]! }, provider: sessions }, account.live, byMinute)
  t.is(await world.services.redis.zcard(`realtime:${account.organisationId}`), 1)
  await session.leave()
  const charges = await chargesOf(world.services, session, 1)
  t.true(charges[0]!.nano > 0 && charges[0]!.nano <= stretchNano[byMinute])
  await nothingLeft(world.services, account)
})

test.serial('every key is in the slot of the prefix', async t => {
  const redis = new Redis(world.redis.url)
  t.teardown(() => redis.disconnect())
  const keys = await redis.keys('*')
  t.true(keys.length > 0)
  t.deepEqual(
    keys.filter(key => !key.startsWith(prefix)),
    [],
  )
})

test.serial('without a hash tag, a cluster is reported and not ready', async t => {
  t.deepEqual(await listRedisWarnings(world.services.redis), [])
  const services = await observe({ databaseUrl: world.postgres.url, redisUrl: world.redis.url })
  t.teardown(() => services.close())
  const [warning, ...others] = await listRedisWarnings(services.redis)
  t.regex(warning!, /Set REDIS_KEY_PREFIX/)
  t.deepEqual(others, [])
  const error = await t.throwsAsync<GatewayError>(checkReadiness(services))
  t.deepEqual(error.metadata, { failing: ['redis'] })
})

test.serial('a replica of a cluster is refused, and served once it is the primary', async t => {
  const [primary, replica] = await Promise.all([privateCluster(), privateRedis(await clusterFlags())])
  t.teardown(() => Promise.all([primary.stop(), replica.stop()]))
  const admin = new Redis(replica.url)
  const client = openRequestRedis({ redisUrl: replica.url, redisTlsVerify: true, redisKeyPrefix: prefix })
  t.teardown(() => [admin, client].map(redis => redis.disconnect()))
  const seed = new Redis(primary.url)
  const id = String(await seed.call('CLUSTER', 'MYID'))
  const { host, port } = seed.options
  const [, busPort] = (await seed.config('GET', 'cluster-port')) as string[]
  seed.disconnect()
  await admin.call('CLUSTER', 'MEET', host!, String(port), busPort!)
  const isDone = (command: string[]) =>
    admin.call(...(command as [string])).then(
      () => true,
      () => false,
    )
  await eventually(() => isDone(['CLUSTER', 'REPLICATE', id]), 'the nodes know each other')
  await eventually(async () => /master_link_status:up/.test(await admin.info('replication')), 'it is a replica')

  await waitUntilReady(client, 10_000)
  const reconnecting = once(client, 'reconnecting')
  const error = await t.throwsAsync(client.set('key', '1'), { message: /^MOVED / })
  t.true(isOutage(error))
  await reconnecting
  await eventually(() => isDone(['CLUSTER', 'FAILOVER']), 'it takes over')
  await eventually(
    () =>
      client.set('key', '1').then(
        () => true,
        () => false,
      ),
    'it is served',
  )
  t.is(await admin.get(`${prefix}key`), '1')
})
