import type { Worker } from 'bullmq'
import { createAuth } from '../../api/auth/auth.ts'
import { consumeRateLimit, withLock } from '../../api/auth/limits.ts'
import { ClockSkew } from '../../shared/io/clock-skew.ts'
import { createLog } from '../../shared/io/log.ts'
import { openWorkerRedis } from '../../shared/io/redis.ts'
import { openQueue, queueAddress } from '../../shared/queues/queues.ts'
import { Tasks } from '../../shared/queues/tasks.ts'
import { hourlyRules, pruneAll } from '../../shared/retention/rules.ts'
import { done, retryIn, runQueue } from '../../workers/run-queue.ts'
import { startWorld } from '../support/chat/gateway.ts'
import { signUp } from '../support/dashboard/dashboard.ts'
import { eventually } from '../support/gateway.ts'
import { test } from '../support/test.ts'
import { useGateway } from '../support/use.ts'

const dayMs = 24 * 3_600_000
/** What the machine's wall clock is ahead. */
let aheadMs = 0
const wall = { now: () => Date.now() + aheadMs }

const gateway = useGateway(test)
test.beforeEach(() => {
  aheadMs = 0
})

async function open(more: object = {}): Promise<ClockSkew> {
  const { db, redis } = gateway.services
  const skew = new ClockSkew({ db, redis, log: createLog('silent'), wall, ...more })
  await skew.measure()
  return skew
}

test.serial('a step of the clock is known at once, and its end by the next measurement', async t => {
  const skew = await open()
  t.true(skew.isBounded)
  aheadMs = 400 * dayMs
  t.false(skew.isBounded)
  t.true(Math.abs(skew.skewMs - aheadMs) < 5_000)
  await skew.measure()
  t.false(skew.isBounded)
  aheadMs = -90_000
  t.false(skew.isBounded)
  t.true(skew.skewMs < -60_000)
  aheadMs = 0
  t.true(skew.isBounded)
})

test.serial('a store whose clock is wrong does not make this machine’s wrong', async t => {
  const { redis } = gateway.services
  const time = async () => [String(Math.floor(Date.now() / 1_000) + 600), '0']
  const wrong = new Proxy(redis, { get: (target, name) => (name === 'time' ? time : Reflect.get(target, name)) })
  const skew = await open({ redis: wrong })
  t.true(skew.isBounded)
  aheadMs = 90_000
  t.false(skew.isBounded)
})

test.serial(
  'a machine that was suspended, whose two clocks differ and whose time is right, is trusted again',
  async t => {
    aheadMs = -600_000
    const skew = await open()
    t.false(skew.isBounded)
    aheadMs = 0 // The wall clock went on for ten minutes in which the monotonic one stood still.
    await skew.measure()
    t.true(skew.isBounded)
  },
)

test.serial('a wrong clock gives the time of the stores, a right one its own', async t => {
  const skew = await open()
  aheadMs = 500
  t.true(skew.now() - Date.now() > 250)
  for (const stepMs of [400 * dayMs, -90_000, 5_000]) {
    aheadMs = stepMs
    t.true(Math.abs(skew.now() - Date.now()) < 250, `stepped by ${stepMs}`)
    await skew.measure()
    t.true(Math.abs(skew.now() - Date.now()) < 250, `measured at ${stepMs}`)
    t.true(Number.isInteger(skew.now()))
  }
  t.is(gateway.services.clock, gateway.services.clockSkew)
})

test.serial('a step during a measurement is no part of it', async t => {
  const { db } = gateway.services
  const query = (...args: unknown[]) => {
    aheadMs = 400 * dayMs
    return (db.$queryRaw as (...args: unknown[]) => Promise<unknown>)(...args)
  }
  const stepping = new Proxy(db, {
    get: (target, name) => (name === '$queryRaw' ? query : Reflect.get(target, name)),
  })
  const skew = await open({ db: stepping })
  t.false(skew.isBounded)
  t.true(Math.abs(skew.now() - Date.now()) < 250)
})

test.serial('a store that is away keeps what is known of its clock', async t => {
  const { db, redis } = gateway.services
  let isAway = false
  const time = async () => [String(Math.floor(Date.now() / 1_000) + 600), '0']
  const query = (...args: unknown[]) =>
    isAway ? Promise.reject(new Error('away')) : (db.$queryRaw as (...args: unknown[]) => Promise<unknown>)(...args)
  const skew = await open({
    db: new Proxy(db, { get: (target, name) => (name === '$queryRaw' ? query : Reflect.get(target, name)) }),
    redis: new Proxy(redis, { get: (target, name) => (name === 'time' ? time : Reflect.get(target, name)) }),
  })
  t.true(skew.isBounded)
  isAway = true
  await skew.measure()
  t.true(skew.isBounded, 'not compared with Redis alone, whose clock is wrong')
})

test.serial(
  '200 of a web process whose clock is a year ahead, charged now: the key has not expired, the month is this one',
  async t => {
    let skew: ClockSkew | null = null
    const world = await startWorld({}, { now: () => (skew ?? wall).now() })
    t.teardown(() => world.close())
    const { db, redis, log } = world.gateway.services
    const expires_at = new Date(Date.now() + 30 * dayMs).toISOString()
    const { live, organisationId } = await world.gateway.account({ monthly_spend_cap_usd: 5, expires_at })
    skew = new ClockSkew({ db, redis, log, wall })
    await skew.measure()
    aheadMs = 400 * dayMs
    await world.sdk(live).chat.completions.create({ model: 'gpt-4.1', messages: [{ role: 'user', content: 'Hi' }] })
    t.deepEqual(await world.gateway.settled(), [])
    const request = await db.generation.findFirstOrThrow({ where: { organisationId } })
    const charge = await db.ledgerEntry.findFirstOrThrow({ where: { organisationId, amountNano: { lt: 0 } } })
    const spend = await db.keySpend.findFirstOrThrow({ where: { key: { organisationId } } })
    for (const { createdAt } of [request, charge]) t.true(Math.abs(createdAt.getTime() - Date.now()) < 60_000)
    t.is(spend.month, request.createdAt.toISOString().slice(0, 7))
  },
)

test.serial(
  '503 for people while the clock is so wrong that the accounts library would delete sessions; none is',
  async t => {
    const { visitor, userId } = await signUp(gateway)
    const { db, clockSkew } = gateway.services
    const skewed = new Proxy(clockSkew, {
      get: (target, name) => (name === 'skewMs' ? 400 * dayMs : Reflect.get(target, name, target)),
    })
    const auth = createAuth({ ...gateway.services, clockSkew: skewed }, 'x'.repeat(32))
    const headers = new Headers({ cookie: visitor.cookies.map(([name, value]) => `${name}=${value}`).join('; ') })
    await t.throwsAsync(auth.session(headers), { code: 'service_unavailable' })
    await t.throwsAsync(
      auth.handle(new Request(`${gateway.url}/dashboard/api/auth/get-session`, { headers }), {}, null),
      {
        code: 'service_unavailable',
      },
    )
    t.is(await db.session.count({ where: { userId } }), 1)
  },
)

test.serial('a delayed entry of a process whose clock is ahead is due by the time of the stores', async t => {
  const { config, redis } = gateway.services
  const connection = openWorkerRedis(queueAddress(config))
  const queue = openQueue('async', connection, config)
  t.teardown(async () => {
    await queue.close()
    connection.disconnect()
  })
  const skew = await open()
  aheadMs = 400 * dayMs
  await new Tasks(queue, redis, skew).addLater('run', 60_000, 'ajob_1')
  const entry = await queue.getJob('run-ajob_1')
  t.true(Math.abs(entry!.timestamp - Date.now()) < 5_000)
  await entry!.remove()
})

test.serial('kept: everything, while a clock is wrong', async t => {
  const skew = await open()
  aheadMs = 400 * dayMs
  const pruning = pruneAll({ ...gateway.services, clock: wall, clockSkew: skew }, hourlyRules)
  await t.throwsAsync(pruning, { message: /clock of this machine is \d+ ms off/ })
  aheadMs = 0
  await t.notThrowsAsync(pruneAll({ ...gateway.services, clock: wall, clockSkew: skew }, hourlyRules))
})

test.serial(
  'work under way when the clock becomes wrong is not delayed by it: another worker does it again',
  async t => {
    const { config } = gateway.services
    const connection = openWorkerRedis(queueAddress(config))
    const queue = openQueue('media', connection, config)
    const skew = await open()
    const runs: string[] = []
    const failing = async (task: string) => {
      runs.push(task)
      aheadMs = 400 * dayMs
      if (task === 'start') throw new Error('the provider is away')
      return retryIn(5_000)
    }
    const ahead = runQueue({ queue: 'media', processor: failing }, { ...gateway.services, clockSkew: skew }, connection)
    t.teardown(async () => {
      await ahead.close()
      await queue.close()
      connection.disconnect()
    })
    const stepped = async (task: string) => {
      const count = runs.length + 1
      const entry = await queue.add(task, {})
      await eventually(() => runs.length === count, 'it has run')
      // A fetch that was under way when the worker was paused may take the entry once more; it is left again, and removed
      // only while nobody has its lock.
      const isRemoved = async () => (await entry.isWaiting()) && (await queue.remove(entry.id!)) === 1
      await eventually(async () => ahead.isPaused() && (await isRemoved()), 'it was left to other workers')
      aheadMs = 0
      await skew.measure()
    }
    await stepped('start')
    await stepped('finish')
    t.deepEqual(runs, ['start', 'finish'])
  },
)

test.serial(
  'a worker whose clock is wrong leaves the entries of queues to others, and goes on when it is right',
  async t => {
    const { config } = gateway.services
    const connection = openWorkerRedis(queueAddress(config))
    const queue = openQueue('emails', connection, config)
    const skew = await open()
    aheadMs = 400 * dayMs
    const run: string[] = []
    const workerOf = (name: string, clockSkew: ClockSkew): Worker =>
      runQueue(
        {
          queue: 'emails',
          processor: async task => {
            run.push(`${name}: ${task}`)
            return done
          },
        },
        { ...gateway.services, clockSkew },
        connection,
      )
    const ahead = workerOf('ahead', skew)
    const right = workerOf('right', await open({ wall: { now: () => Date.now() } }))
    t.teardown(async () => {
      await Promise.all([ahead.close(), right.close()])
      await queue.close()
      connection.disconnect()
    })
    await ahead.waitUntilReady()
    await queue.add('first', {})
    await eventually(() => run.length === 1, 'the other worker has run it')
    await right.close()
    aheadMs = 0
    await skew.measure()
    await queue.add('second', {})
    await eventually(() => run.length === 2, 'the worker has gone on')
    t.deepEqual(run, ['right: first', 'ahead: second'])
  },
)

test.serial('attempts and locks end when they should, although Redis’ clock was set back since', async t => {
  const { redis } = gateway.services
  const rule = { windowS: 60, max: 3 }
  await redis.set('attempts:someone', 9, 'PX', 400 * dayMs)
  const { allowed, retryAfterS } = await consumeRateLimit(redis, 'someone', rule)
  t.deepEqual([allowed, retryAfterS], [false, 60])
  t.true((await redis.ttl('attempts:someone')) <= 60)
  await redis.set('lock:something', 'a dead process', 'PX', 400 * dayMs)
  const changed = withLock(redis, 'something', async () => 'changed')
  await eventually(async () => (await redis.pttl('lock:something')) <= 10_000, 'the lock ends')
  await redis.del('lock:something')
  t.is(await changed, 'changed')
})
