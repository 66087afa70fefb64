import test from 'ava'
import type { Worker } from 'bullmq'
import { ClockSkew } from '../../shared/io/clock-skew.ts'
import { createLog } from '../../shared/io/log.ts'
import { openWorkerRedis } from '../../shared/io/redis.ts'
import { openQueue, queueAddress } from '../../shared/queues/queues.ts'
import { hourlyRules, pruneAll } from '../../shared/retention/rules.ts'
import { done, runQueue } from '../../workers/run.ts'
import { eventually, freshStores, type Gateway, type Stores, startGateway } from '../support/gateway.ts'

const dayMs = 24 * 3_600_000

let stores: Stores
let gateway: Gateway
/** What the machine's wall clock is ahead. */
let aheadMs = 0
const wall = { now: () => Date.now() + aheadMs }

test.before(async () => {
  stores = await freshStores()
  gateway = await startGateway(stores)
})
test.beforeEach(() => {
  aheadMs = 0
})
test.after.always(async () => {
  await gateway?.close()
  await stores?.drop()
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

test.serial('nothing is deleted by a wrong clock', async t => {
  const skew = await open()
  aheadMs = 400 * dayMs
  const pruning = pruneAll({ ...gateway.services, clock: wall, clockSkew: skew }, hourlyRules)
  await t.throwsAsync(pruning, { message: /clock of this machine is \d+ ms off/ })
  aheadMs = 0
  await t.notThrowsAsync(pruneAll({ ...gateway.services, clock: wall, clockSkew: skew }, hourlyRules))
})

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
    await ahead.waitUntilReady()
    await queue.add('first', {})
    const right = workerOf('right', await open({ wall: { now: () => Date.now() } }))
    await eventually(() => run.length === 1, 'the other worker has run it')
    await right.close()
    aheadMs = 0
    await skew.measure()
    await queue.add('second', {})
    await eventually(() => run.length === 2, 'the worker has gone on')
    t.deepEqual(run, ['right: first', 'ahead: second'])
    await ahead.close()
    await queue.close()
    connection.disconnect()
  },
)
