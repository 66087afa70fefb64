import { setImmediate } from 'node:timers/promises'
import { eventually } from '../support/gateway.ts'
import { type Fleet, failure, openFleet, targetOf } from '../support/routing/health.ts'
import { freshRedis, privateRedis } from '../support/stack.ts'
import { test } from '../support/test.ts'

let stores: Awaited<ReturnType<typeof freshRedis>>
let fleet: Fleet
test.beforeEach(async () => {
  stores = await freshRedis()
  fleet = await openFleet(stores.url, 2)
})
test.afterEach.always(async () => {
  fleet?.close()
  await stores?.release()
})

const key = { id: 'key1', alone: true }
const target = targetOf('gpt-5@openai')
const id = 'openai|gpt-5'
const minuteMs = 60_000

/** Almost the same: some milliseconds pass between writing and reading. */
const near = (value: number, expected: number) => Math.abs(value - expected) <= Math.abs(expected) * 0.02

test.serial('halved each minute: what was counted', async t => {
  const [a, b] = fleet.processes
  await fleet.edit(id, { good: 8, bad: 24 }, { at: -minuteMs })
  a!.recordSuccess(target, null)
  await fleet.exchange()
  const { good, bad } = await fleet.record(id)
  t.true(near(good, 5) && near(bad, 12), `${good} ${bad}`)
  t.true(near(b!.figures(target).failureRate, 12 / 17))
})

test.serial('the failure rate tells nothing while few calls, or few recent ones, were counted', async t => {
  const [a] = fleet.processes
  const rateOf = async (good: number, bad: number, agoMs: number) => {
    await fleet.edit(id, { good, bad }, { at: -agoMs })
    // As a change of that time would have come to a process that was there then.
    await fleet.redis.zadd('health:changed', String(Date.now()), id)
    await fleet.exchange()
    return a!.figures(target).failureRate
  }
  t.is(await rateOf(1, 3, 0), 0)
  t.is(await rateOf(3, 3, 0), 0.5)
  t.is(await rateOf(2, 10, 2 * minuteMs), 0)
  t.is(await rateOf(20, 20, 2 * minuteMs), 0.5)
})

test.serial('figures without a new sample for ten minutes expire, also in Redis', async t => {
  const [a, b] = fleet.processes
  for (let i = 0; i < 50; i++) await fleet.edit(`openai|old-${i}`, { good: 5 }, { at: -11 * minuteMs })
  await fleet.edit(id, { good: 5, bad: 5, first_byte_ms: 900 }, { at: -9 * minuteMs })
  await fleet.edit('openai|gpt-5-mini', { bad: 9 }, { open_until: -10 * minuteMs, at: -11 * minuteMs })
  await fleet.exchange()
  await fleet.exchange()
  t.deepEqual(await fleet.redis.hkeys('health'), [id])
  t.deepEqual(await fleet.redis.zrange('health:changed', '0', '-1'), [id])
  t.is(a!.figures(targetOf('gpt-5-mini@openai')).circuit, 'closed')
  t.is(b!.figures(target).firstByteMs, 900)
})

test.serial('a pause that was asked for outlives the figures', async t => {
  const [a, b] = fleet.processes
  await fleet.edit(id, { bad: 9 }, { at: -11 * minuteMs, rest_until: 30 * minuteMs })
  await fleet.exchange()
  for (const health of [a!, b!]) t.is(Math.round(health.figures(target).cooldownMs / minuteMs), 30)
  const late = await fleet.join()
  await late.sync()
  t.is(Math.round(late.figures(target).cooldownMs / minuteMs), 30)
  t.is(late.figures(target).failureRate, 0)
})

test.serial('open, half open and in cooldown at the same moments for clocks that are minutes apart', async t => {
  const ahead = await fleet.join(7 * minuteMs)
  const behind = await fleet.join(-7 * minuteMs)
  for (let i = 0; i < 3; i++) ahead.recordFailure(target, failure('connection'), minuteMs, key)
  behind.recordFailure(targetOf('gpt-4o@openai'), failure('overloaded', 2 * minuteMs), 5, key)
  await fleet.exchange()
  for (const health of fleet.processes) {
    const { circuit, cooldownMs: restMs } = health.figures(target)
    t.is(circuit, 'open')
    t.true(restMs > minuteMs / 2 && restMs <= 1.5 * minuteMs, String(restMs))
    const askedMs = health.figures(targetOf('gpt-4o@openai')).cooldownMs
    t.true(askedMs > minuteMs && askedMs <= 2 * 1.5 * minuteMs, String(askedMs))
  }
  await fleet.edit(id, {}, { open_until: -20 })
  await fleet.exchange()
  for (const health of fleet.processes) t.is(health.figures(target).circuit, 'half_open')
  const won = await Promise.all(fleet.processes.map(health => health.tryAcquire(target)))
  t.is(won.filter(Boolean).length, 1)
})

test.serial('paused and open for as long as was meant, although Redis’ clock was set back since', async t => {
  const [a, b] = fleet.processes
  const farMs = 400 * 24 * 60 * minuteMs
  const moments = { at: farMs, open_until: farMs + minuteMs, rest_until: farMs + 2 * minuteMs }
  await fleet.edit(id, { good: 8, bad: 24, run: 3 }, moments)
  await fleet.redis.set(`health:trial:${id}`, '1', 'PX', farMs)
  a!.recordSuccess(target, 30)
  await fleet.exchange()
  const { good, at, open_until, rest_until } = await fleet.record(id)
  t.true(near(good, 9), String(good))
  t.true(near(open_until - at, minuteMs) && near(rest_until - at, 2 * minuteMs))
  t.is(b!.figures(target).circuit, 'open')
  t.true(b!.figures(target).cooldownMs <= 2 * minuteMs)
  t.true((await fleet.redis.pttl(`health:trial:${id}`)) <= minuteMs)
  // A process that has carried on the time of before.
  const late = await fleet.join(farMs)
  late.recordFailure(targetOf('gpt-4o@openai'), failure('overloaded', minuteMs), 5, key)
  await late.sync()
  const { cooldownMs } = late.figures(targetOf('gpt-4o@openai'))
  t.true(cooldownMs > minuteMs / 2 && cooldownMs <= 2 * minuteMs, String(cooldownMs))
})

test.serial('open for a process that is held up between an exchange and its answer', async t => {
  let heldUpMs = 0
  const process = await fleet.join(() => heldUpMs)
  await fleet.edit(id, { run: 3 }, { at: -20, open_until: minuteMs })
  await process.sync()
  const exchange = process.sync()
  heldUpMs = 20_000
  const circuits = new Set<string>()
  let isOver = false
  void exchange.then(() => {
    isOver = true
  })
  while (!isOver) {
    circuits.add(process.figures(target).circuit)
    await setImmediate()
  }
  t.deepEqual([...circuits], ['open'])
})

test.serial('a trial whose process died before Redis’ clock was set back is repeated after ten seconds', async t => {
  const [a] = fleet.processes
  await fleet.edit(id, { run: 3 }, { open_until: -20 })
  await fleet.redis.set(`health:trial:${id}`, '1', 'PX', 400 * 24 * 60 * minuteMs)
  await fleet.exchange()
  t.false(await a!.tryAcquire(target))
  const isBounded = async () => (await fleet.redis.pttl(`health:trial:${id}`)) <= 10_000
  await eventually(isBounded, 'the trial ends')
  t.pass()
})

test.serial('nothing that was seen is lost or counted twice, however the exchanges overlap', async t => {
  const other = targetOf('gpt-4o@openai')
  const started = Date.now()
  await Promise.all(
    fleet.processes.map(async health => {
      for (let i = 0; i < 200; i++) {
        health.recordSuccess(other, null)
        if (i % 4 === 0) health.recordFailure(other, failure('server_error'), 5, key)
        if (i % 10 === 0) await health.sync()
      }
      await health.sync()
    }),
  )
  const { good, bad } = await fleet.record('openai|gpt-4o')
  const faded = 0.5 ** ((Date.now() - started) / minuteMs)
  t.true(good <= 400 && good >= 400 * faded - 1e-6, String(good))
  t.true(bad <= 100 && bad >= 100 * faded - 1e-6, String(bad))
})

test.serial('known to the others without their asking', async t => {
  const [a, b] = fleet.processes
  await b!.start()
  for (let i = 0; i < 3; i++) a!.recordFailure(target, failure('connection'), 5, key)
  await eventually(() => b!.figures(target).circuit !== 'closed', 'the other process sees the circuit open')
  b!.close()
  t.pass()
})

test.serial(
  'figures stay as they are while Redis is away, nothing throws, and all goes on when it is back',
  async t => {
    const server = await privateRedis()
    const lone = await openFleet(server.url, 2)
    const [a, b] = lone.processes
    try {
      a!.recordFirstByte(target, 300)
      for (let i = 0; i < 3; i++) a!.recordFailure(targetOf('gpt-4o@openai'), failure('timeout'), 50_000, key)
      await lone.exchange()
      await server.kill()
      await eventually(() => lone.redis.status !== 'ready', 'Redis is away')
      a!.recordFirstByte(target, 900)
      a!.recordSuccess(target, 10)
      a!.recordFailure(target, failure('overloaded', 9_000), 5, key)
      a!.releaseProbe(targetOf('gpt-4o@openai'))
      await lone.exchange()
      t.is(b!.figures(target).firstByteMs, 300)
      t.is(b!.figures(targetOf('gpt-4o@openai')).circuit, 'open')
      t.true(a!.figures(target).cooldownMs > 8_000, 'its own pauses hold')
      t.true(await b!.tryAcquire(target))
      t.false(await b!.tryAcquire(targetOf('gpt-4o@openai')))
      await server.restart()
      await eventually(async () => {
        a!.recordSuccess(target, 70)
        await lone.exchange()
        return b!.figures(target).tokensPerSecond === 70
      }, 'the processes exchange again')
    } finally {
      lone.close()
      await server.stop()
    }
  },
)

test.serial('a wiped Redis is filled anew; a circuit that was open closes by one trial', async t => {
  const [a, b] = fleet.processes
  for (let i = 0; i < 3; i++) a!.recordFailure(target, failure('connection'), 5, key)
  await fleet.exchange()
  await fleet.edit(id, {}, { open_until: -1 })
  await fleet.exchange()
  await fleet.redis.flushdb()
  await fleet.exchange()
  t.is(b!.figures(target).circuit, 'half_open')
  const won = await Promise.all(fleet.processes.map(health => health.tryAcquire(target)))
  t.is(won.filter(Boolean).length, 1)
  a!.recordSuccess(target, 30)
  await fleet.exchange()
  for (const health of fleet.processes) t.like(health.figures(target), { circuit: 'closed', cooldownMs: 0 })
})
