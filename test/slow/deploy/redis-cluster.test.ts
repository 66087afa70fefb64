import { once } from 'node:events'
import { Redis } from 'ioredis'
import { checkReadiness } from '../../../api/readiness.ts'
import type { GatewayError } from '../../../shared/base/errors.ts'
import { isOutage } from '../../../shared/io/outage.ts'
import { openRequestRedis, waitUntilReady } from '../../../shared/io/redis.ts'
import { listRedisWarnings } from '../../../shared/io/redis-start.ts'
import { observe } from '../../support/chaos.ts'
import { openEverything, runEverything } from '../../support/deploy/everything.ts'
import { createAccount, eventually } from '../../support/gateway.ts'
import { meet, replicate } from '../../support/io/cluster.ts'
import { byMinute, chargesOf, nothingLeft, stretchNano, talk } from '../../support/realtime/sessions.ts'
import { clusterFlags, privateCluster, privateRedis } from '../../support/stack.ts'
import { test } from '../../support/test.ts'
import { use } from '../../support/use.ts'

const prefix = '{headgate}:'

const everything = use(test, () => openEverything({ REDIS_KEY_PREFIX: prefix }, privateCluster))

test.serial('chat, streams, embeddings, images, videos, delayed jobs, batches and webhooks work', async t => {
  t.timeout(180_000)
  await runEverything(t, everything)
  const { redis } = everything.world.services
  t.true(await redis.exists('lane:groq', 'lane:together', 'lane:fireworks').then(count => count > 0))
})

test.serial('a realtime session is charged and releases its slot', async t => {
  const { world, sessions } = everything
  const account = await createAccount(world.services)
  const session = await talk({ gateway: { url: world.webUrls[0]! }, provider: sessions }, account.live, byMinute)
  t.is(await world.services.redis.zcard(`realtime:${account.organisationId}`), 1)
  await session.leave()
  const charges = await chargesOf(world.services, session, 1)
  t.true(charges[0]!.nano > 0 && charges[0]!.nano <= stretchNano[byMinute])
  await nothingLeft(world.services, account)
})

test.serial('every key is in the slot of the prefix', async t => {
  const redis = new Redis(everything.world.redis.url)
  t.teardown(() => redis.disconnect())
  const keys = await redis.keys('*')
  t.true(keys.length > 0)
  t.deepEqual(
    keys.filter(key => !key.startsWith(prefix)),
    [],
  )
})

test.serial('without a hash tag, a cluster is reported and not ready', async t => {
  const { world } = everything
  t.deepEqual(await listRedisWarnings(world.services.redis), [])
  const services = await observe({ databaseUrl: world.postgres.url, redisUrl: world.redis.url })
  t.teardown(() => services.close())
  const [warning, ...others] = await listRedisWarnings(services.redis)
  t.regex(warning!, /REDIS_KEY_PREFIX/)
  t.deepEqual(others, [])
  const error = await t.throwsAsync<GatewayError>(checkReadiness(services))
  t.deepEqual(error.metadata, { failing: ['redis'] })
})

test.serial('the client of a cluster works on the same keys', async t => {
  const { world } = everything
  const url = world.redis.url.replace('redis:', 'redis+cluster:')
  const services = await observe({ databaseUrl: world.postgres.url, redisUrl: url }, { REDIS_KEY_PREFIX: prefix })
  t.teardown(() => services.close())
  await checkReadiness(services)
  const { organisationId } = await createAccount(world.services)
  t.is(Number((await services.wallets.view(organisationId)).availableNano), 25e9)
  t.is(await services.redis.hget(`wallet:${organisationId}`, 'posted'), String(25e9))
  t.true((await services.queues.maintenance.getWorkersCount()) > 0)
})

test.serial('a replica of a cluster is refused, and served once it is the primary', async t => {
  const [primary, replica] = await Promise.all([privateCluster(), privateRedis(await clusterFlags())])
  t.teardown(() => Promise.all([primary.stop(), replica.stop()]))
  const admin = new Redis(replica.url)
  const client = openRequestRedis({ redisUrl: replica.url, redisTlsVerify: true, redisKeyPrefix: prefix })
  t.teardown(() => [admin, client].map(redis => redis.disconnect()))
  await meet(replica.url, primary.url)
  await replicate(replica.url, primary.url)
  const isDone = (command: string[]) =>
    admin.call(...(command as [string])).then(
      () => true,
      () => false,
    )

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
