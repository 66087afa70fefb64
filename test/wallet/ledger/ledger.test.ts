import { hostname } from 'node:os'
import { Worker } from 'bullmq'
import { newId } from '../../../shared/base/ids.ts'
import { monthOf } from '../../../shared/base/time.ts'
import { openWorkerRedis, type Redis } from '../../../shared/io/redis.ts'
import type { Services } from '../../../shared/open-services.ts'
import { openQueue, queues, scheduleRepeating, shortenOverlongLocks } from '../../../shared/queues/queues.ts'
import { pruneAll, requestLogRules } from '../../../shared/retention/rules.ts'
import { lostSettlement } from '../../../shared/wallet/admission.ts'
import { checkLedger } from '../../../shared/wallet/check.ts'
import { ensureLedgerGroup, ledgerGroup, usageStream } from '../../../shared/wallet/ledger.ts'
import { maintainPartitions } from '../../../shared/wallet/partitions.ts'
import { reconcile } from '../../../shared/wallet/reconcile.ts'
import type { UsageEvent } from '../../../shared/wallet/usage-event.ts'
import { LedgerWorker } from '../../../workers/ledger.ts'
import { breaches, observe } from '../../support/chaos.ts'
import { createAccount, eventually, freshStores, type Stores, untilBooked } from '../../support/gateway.ts'
import { test } from '../../support/test.ts'
import { usageEventOf } from '../../support/wallet/usage-event.ts'

let stores: Stores
let services: Services
let blocking: Redis
let organisationId: string
let keyId: string

test.beforeEach(async () => {
  stores = await freshStores()
  services = await observe(stores)
  blocking = openWorkerRedis(services.config)
  ;({ organisationId } = await createAccount(services))
  const key = await services.db.apiKey.findFirstOrThrow({ where: { organisationId, environment: 'live' } })
  keyId = key.id
  await services.wallets.install(organisationId, keyId, month)
})
test.afterEach.always(async () => {
  blocking?.disconnect()
  await services?.close()
  await stores?.drop()
})

const month = '2027-03'
const at = Date.parse('2027-03-10T12:00:00Z')

function event(more: Partial<UsageEvent> = {}): UsageEvent {
  const own = { id: newId('chatcmpl'), at, org: organisationId, key: keyId, requestId: newId('req') }
  return usageEventOf({ ...own, month: monthOf(more.at ?? at), ...more })
}

/** Settles events as a web process does, in one call. */
async function settle(...events: UsageEvent[]): Promise<void> {
  const settlements = events.map(event => ({ ...lostSettlement(event), reservedNano: 0, event: JSON.stringify(event) }))
  await services.scripts.settle({ instance: 'a-web-process', settlements })
}

/** Lets a worker book what is there. */
async function work(): Promise<void> {
  const worker = new LedgerWorker(services, blocking)
  worker.start()
  await untilBooked(services).finally(() => worker.stop())
}

async function balance(): Promise<number> {
  const { balanceNano } = await services.db.wallet.findUniqueOrThrow({ where: { organisationId } })
  return Number(balanceNano)
}

test.serial('booked whatever text a provider sends', async t => {
  const texts = ['nul \0 nul', 'lone \ud800 surrogate', '𝒳'.repeat(10_000), '\\u0000 "quoted"']
  await settle(...texts.map(upstreamId => event({ upstreamId })))
  await work()
  t.is(await balance(), 25e9 - 4_000)
  const rows = await services.db.generation.findMany({ select: { upstreamId: true } })
  t.true(rows.some(({ upstreamId }) => upstreamId === 'nul  nul'))
  t.true(rows.some(({ upstreamId }) => upstreamId === '\\u0000 "quoted"'))
  t.deepEqual(await breaches(services), [])
})

test.serial('dead-lettered when Postgres refuses an event; the others of its batch are booked', async t => {
  const refused = [event({ promptTokens: 3e9 }), event({ id: 'no organisation', org: 'org_none' })]
  await settle(event(), refused[0]!, event(), refused[1]!, event())
  await services.redis.xadd(usageStream, '*', 'e', 'not JSON')
  await services.redis.xadd(usageStream, '*', 'e', '{"cost":1.5}')
  await work()
  t.is(await balance(), 25e9 - 3_000)
  const dead = await services.redis.xrange('usage:dead', '-', '+')
  const reasons = dead.map(
    ([, fields]) => `${fields[1]!.slice(0, 8)} ${fields[3]!.match(/2\d[0-9A-Z]{3}|not a.*/)?.[0]}`,
  )
  t.deepEqual(reasons.sort(), [
    'not JSON not a usage event',
    '{"cost": not a usage event',
    '{"id":"c 22003',
    '{"id":"n 23503',
  ])
  // What is not charged does not reduce what is available.
  const { availableNano } = await services.wallets.view(organisationId)
  t.is(Number(availableNano), await balance())
  t.deepEqual(await breaches(services), ['no usage event was refused by Postgres: 4 events wait in usage:dead'])
})

test.serial('booked once when a worker died with entries in hand: by its successor of the same name', async t => {
  const count = 1_700
  await settle(...Array.from({ length: count }, () => event()))
  await ensureLedgerGroup(services.redis)
  const name = `${hostname()}-${process.pid}`
  await blocking.xreadgroup('GROUP', ledgerGroup, name, 'COUNT', count, 'STREAMS', usageStream, '>')
  await settle(event())
  await work()
  t.is(await balance(), 25e9 - 1_000 * (count + 1))
  t.deepEqual(await breaches(services), [])
})

test.serial('booked once when a worker died with entries in hand: by another after a while', async t => {
  await settle(event(), event())
  await ensureLedgerGroup(services.redis)
  await blocking.xreadgroup('GROUP', ledgerGroup, 'dead', 'COUNT', 10, 'STREAMS', usageStream, '>')
  const entries = await services.redis.xrange(usageStream, '-', '+')
  for (const [id] of entries) await blocking.call('XCLAIM', usageStream, ledgerGroup, 'dead', '0', id, 'IDLE', '31000')
  await work()
  t.is(await balance(), 25e9 - 2_000)
  t.deepEqual(await breaches(services), [])
})

test.serial('booked once when Redis’ clock may have been set back: by a worker that starts, at once', async t => {
  // By such a clock, the entries of a dead worker would not be idle for as long as the clock was ahead.
  await settle(event(), event())
  await ensureLedgerGroup(services.redis)
  await blocking.xreadgroup('GROUP', ledgerGroup, 'dead', 'COUNT', 10, 'STREAMS', usageStream, '>')
  await work()
  t.is(await balance(), 25e9 - 2_000)
  t.deepEqual(await breaches(services), [])
})

test.serial('kept: what a key has spent in its month expires by no clock, and goes when all is posted', async t => {
  const { redis, db, scripts } = services
  const key = `spend:${keyId}:${month}`
  const nextMonth = Date.parse('2027-04-02T12:00:00Z')
  t.is(await redis.pttl(key), -1)
  // As the release before sets it.
  await redis.expire(key, 5_184_000)
  await settle(event())
  await reconcile(db, redis, scripts, at)
  t.is(await redis.pttl(key), -1)
  await reconcile(db, redis, scripts, nextMonth)
  t.is(await redis.hget(key, 'unposted'), '1000', 'not over while something is unposted')
  await work()
  await reconcile(db, redis, scripts, at)
  t.is(await redis.hget(key, 'posted'), '1000', 'its month is not over')
  await redis.hset(key, 'reserved', 7)
  await reconcile(db, redis, scripts, nextMonth)
  t.is(await redis.hget(key, 'reserved'), '7', 'not over while something is reserved')
  await redis.hset(key, 'reserved', 0)
  await reconcile(db, redis, scripts, nextMonth)
  t.is(await redis.exists(key), 0)
  t.deepEqual(await breaches(services), [])
})

test.serial('booked once when an event arrives twice, with the first one’s cost', async t => {
  const first = event()
  await settle(first, { ...first, cost: 0 }, first)
  await settle({ ...first, cost: 5_000 })
  await work()
  t.is(await balance(), 25e9 - 1_000)
  t.is(Number((await services.wallets.view(organisationId)).availableNano), 25e9 - 1_000)
  t.deepEqual(await breaches(services), [])
})

test.serial('brought up to date when Redis came back with an older state', async t => {
  const older = await services.redis.hgetall(`wallet:${organisationId}`)
  const olderSpend = await services.redis.hgetall(`spend:${keyId}:${month}`)
  await settle(event())
  await work()
  await services.redis.hset(`wallet:${organisationId}`, older)
  await services.redis.hset(`spend:${keyId}:${month}`, olderSpend)
  t.is(await reconcile(services.db, services.redis, services.scripts, at), 2)
  t.is(Number((await services.wallets.view(organisationId)).availableNano), 25e9 - 1_000)
  t.is(await services.redis.hget(`spend:${keyId}:${month}`, 'posted'), '1000')
  t.is(await reconcile(services.db, services.redis, services.scripts, at), 0)
  t.deepEqual(await breaches(services), [])
})

test.serial('scheduled: housekeeping goes on after a wipe of Redis, or a death between a run and the next', async t => {
  const queue = openQueue('maintenance', blocking)
  t.teardown(() => queue.close())
  const waiting = async () => (await queue.getJobs(['waiting', 'delayed'])).map(({ name }) => name).sort()
  const schedule = () => services.redis.zrange(queue.toKey('repeat'), '0', '-1', 'WITHSCORES')
  const all = Object.keys(queues.maintenance.repeat).sort()
  await scheduleRepeating(queue, 'maintenance')
  t.deepEqual(await waiting(), all)
  const before = await schedule()
  await scheduleRepeating(queue, 'maintenance')
  t.deepEqual(await schedule(), before, 'left alone')

  await services.redis.flushdb()
  await scheduleRepeating(queue, 'maintenance')
  t.deepEqual(await waiting(), all)

  await services.redis.del(queue.toKey('delayed'), queue.toKey('wait'))
  await services.redis.zadd(queue.toKey('repeat'), Date.now() - 11_000, 'sweep')
  await scheduleRepeating(queue, 'maintenance')
  t.deepEqual(await waiting(), ['sweep'])

  // As a worker leaves it whose clock was ahead.
  const startDate = Date.now() + 400 * 24 * 3_600_000
  await queue.removeJobScheduler('sweep')
  await queue.upsertJobScheduler('sweep', { every: 5_000, startDate }, { name: 'sweep' })
  t.true((await queue.getJobScheduler('sweep'))!.next! >= startDate)
  await scheduleRepeating(queue, 'maintenance')
  t.true((await queue.getJobScheduler('sweep'))!.next! < Date.now() + 10_000)
  const [sweep, ...more] = (await queue.getJobs(['waiting', 'delayed'])).filter(({ name }) => name === 'sweep')
  t.true(sweep!.timestamp + sweep!.delay < Date.now() + 10_000)
  t.deepEqual(more, [])
})

test.serial('unlocked: entries of a queue whose locks were set before Redis’ clock was set back', async t => {
  const queue = openQueue('webhooks', blocking)
  const worker = new Worker('webhooks', null, { connection: blocking, autorun: false, maxStalledCount: 5 })
  t.teardown(() => Promise.all([worker.close(), queue.close()]))
  const farMs = 400 * 24 * 3_600_000
  const keyOf = (id: string) => `${queue.toKey(id)}:lock`
  for (const id of ['lost', 'dead', 'alive']) {
    await queue.add('deliver', id, { jobId: id })
    await worker.getNextJob(id)
  }
  await blocking.del(keyOf('lost'))
  await blocking.pexpire(keyOf('dead'), farMs)
  await blocking.set(queue.toKey('stalled-check'), '1', 'PX', farMs)
  t.is(await shortenOverlongLocks(blocking, 'webhooks'), 2)
  t.is(await shortenOverlongLocks(blocking, 'webhooks'), 0)
  t.is(await blocking.exists(queue.toKey('stalled-check')), 0)
  const left = await blocking.pttl(keyOf('dead'))
  t.true(left > 0 && left <= 20_000, String(left))
  t.is(await blocking.get(keyOf('alive')), 'alive')
})

async function partitions(): Promise<string[]> {
  const rows = await services.db.$queryRaw<{ name: string }[]>`
    SELECT tablename::text AS name FROM pg_tables WHERE schemaname = 'partitions' ORDER BY 1`
  return rows.map(({ name }) => name.slice('generations_'.length))
}

test.serial('partitioned: months are made ahead, by several workers at once, and old ones dropped', async t => {
  const keep = (iso: string, generationRetentionMonths: number) =>
    pruneAll(
      { ...services, clock: { now: () => Date.parse(iso) }, config: { ...services.config, generationRetentionMonths } },
      requestLogRules,
    )
  await Promise.all([1, 2, 3].map(() => keep('2098-11-30T23:59:59Z', 2)))
  t.deepEqual(await partitions(), ['2098_11', '2098_12', '2099_01', '2099_02', 'other'])
  const november = event({ at: Date.parse('2098-11-05T00:00:00Z') })
  const january = event({ at: Date.parse('2099-01-05T00:00:00Z') })
  await settle(november, january)
  await work()
  await keep('2099-01-31T00:00:00Z', 2)
  t.deepEqual(await partitions(), ['2098_11', '2098_12', '2099_01', '2099_02', '2099_03', '2099_04', 'other'])
  t.is(await services.db.generation.count(), 2)
  await keep('2099-02-01T00:00:00Z', 2)
  t.deepEqual((await partitions()).slice(0, 2), ['2098_12', '2099_01'])
  t.deepEqual(await services.db.generation.findMany({ select: { id: true } }), [{ id: january.id }])
  const hours = await services.db.usageHour.findMany({ select: { hour: true, outcome: true } })
  t.deepEqual(hours, [{ hour: new Date('2099-01-05T00:00:00Z'), outcome: 'ok' }])
  // The charge outlives its request's log.
  t.is(await balance(), 25e9 - 2_000)
  t.deepEqual(await breaches(services), [])
})

test.serial('partitioned: an event of any month is stored, and moves when its month is made', async t => {
  const keep = (iso: string) => maintainPartitions(services.db, Date.parse(iso), 13)
  const times = ['2020-02-29T00:00:00Z', '2027-02-28T23:59:59.999Z', '2027-03-01T00:00:00Z', '2031-12-31T23:59:59Z']
  const events = times.map(time => event({ at: Date.parse(time) }))
  await settle(...events)
  await work()
  t.is(await services.db.generation.count(), 4)
  t.deepEqual(await breaches(services), [])
  await keep('2027-02-10T00:00:00Z')
  const inOwn = async (name: string) =>
    services.db.$queryRawUnsafe<{ id: string }[]>(`SELECT id FROM partitions.generations_${name}`)
  t.deepEqual(await inOwn('2027_02'), [{ id: events[1]!.id }])
  t.deepEqual(await inOwn('2027_03'), [{ id: events[2]!.id }])
  // Too old to keep: gone also from the partition for what has none.
  t.deepEqual(await inOwn('other'), [{ id: events[3]!.id }])
  t.deepEqual(await breaches(services), [])
  await settle(event({ at: Date.parse('2027-02-20T00:00:00Z') }))
  await work()
  t.is((await inOwn('2027_02')).length, 2)
})

test.serial('checked while events wait: what is on the stream is no breach', async t => {
  await settle(event(), event({ cost: 0 }))
  const invariants = await checkLedger(services.db, services.redis)
  t.deepEqual(
    invariants.flatMap(it => it.breaches),
    [],
  )
  t.is(Number((await services.wallets.view(organisationId)).availableNano), 25e9 - 1_000)
  await work()
  await eventually(async () => (await balance()) === 25e9 - 1_000, 'it is booked')
})
