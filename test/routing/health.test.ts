import type { Target } from '../../shared/providers/contract.ts'
import { ProviderError } from '../../shared/providers/provider-error.ts'
import { eventually } from '../support/gateway.ts'
import { failure, openFleet, targetOf } from '../support/routing/health.ts'
import { decide, worldWith } from '../support/routing/routing.ts'
import { freshRedis } from '../support/stack.ts'
import { test } from '../support/test.ts'
import { use } from '../support/use.ts'

const stores = use(test, freshRedis)
const fleet = use(test, () => openFleet(stores.url, 3))
test.beforeEach(async () => {
  // Each test has targets of its own: what a process remembers of one does not disturb the others.
  await fleet.redis.flushdb()
})

const key = { id: 'key1', alone: true }
const minuteMs = 60_000
const one = { id: 'key1', alone: false }

test.serial('closed: the circuit of a target without any call, whose figures are unknown', t => {
  const [a] = fleet.processes
  t.deepEqual(a!.figures(targetOf('gpt-5@openai')), {
    circuit: 'closed',
    cooldownMs: 0,
    failureRate: 0,
    firstByteMs: null,
    tokensPerSecond: null,
  })
})

test.serial('auto asks again for what it found unknown, as soon as any process has learned of a failure', async t => {
  const [a, b] = fleet.processes
  const world = {
    ...worldWith(['openai', 'anthropic']),
    figures: (target: Target) => b!.figures(target),
    healthRevision: () => b!.revision,
  }
  const [chosen] = decide({}, { world }).targets
  t.is(decide({}, { world }).targets[0], chosen)
  a!.recordFailure(chosen!, failure('server_error', minuteMs), 5, key)
  t.is(decide({}, { world }).targets[0], chosen, 'the other process has not told yet')
  await fleet.exchange()
  t.not(decide({}, { world }).targets[0], chosen)
  b!.recordFailure(chosen!, failure('server_error', minuteMs), 5, key)
  t.not(decide({}, { world }).targets[0], chosen, 'at once in the process that saw it')
})

test.serial('open on every process after three failures in a row, whichever process saw them', async t => {
  const target = targetOf('gpt-5@openai')
  const [a, b, c] = fleet.processes
  a!.recordFailure(target, failure('connection'), 5, key)
  b!.recordFailure(target, failure('server_error'), 5, key)
  await fleet.exchange()
  t.deepEqual(
    fleet.processes.map(health => health.figures(target).circuit),
    ['closed', 'closed', 'closed'],
  )
  a!.recordFailure(target, failure('timeout'), minuteMs, key)
  await fleet.exchange()
  for (const health of [a!, b!, c!]) {
    const { circuit, cooldownMs: restMs } = health.figures(target)
    t.is(circuit, 'open')
    t.true(restMs > 0)
    t.false(await health.tryAcquire(target))
  }
  t.is(a!.figures(targetOf('gpt-5@openrouter')).circuit, 'closed', 'another provider of the model')
  t.is(a!.figures(targetOf('gpt-5-mini@openai')).circuit, 'closed', 'another model of the provider')
})

test.serial('closed while no three failures are in a row, also when they are told together', async t => {
  const target = targetOf('gpt-5-mini@openai')
  const [a, b] = fleet.processes
  for (let i = 0; i < 4; i++) {
    a!.recordFailure(target, failure('server_error'), 5, key)
    a!.recordFailure(target, failure('server_error'), 5, key)
    a!.recordSuccess(target, null)
  }
  await fleet.exchange()
  const { circuit, failureRate } = b!.figures(target)
  t.is(circuit, 'closed')
  t.is(failureRate.toFixed(3), '0.667')
  a!.recordFailure(target, failure('server_error'), 5, key)
  await fleet.exchange()
  b!.recordFailure(target, failure('server_error'), 5, key)
  b!.recordSuccess(target, null)
  await fleet.exchange()
  a!.recordFailure(target, failure('server_error'), 5, key)
  await fleet.exchange()
  t.is(b!.figures(target).circuit, 'closed')
})

test.serial('closed: a target that a process without free file descriptors could not connect to', async t => {
  const target = targetOf('gpt-5-nano@openai')
  const cause = Object.assign(new Error('connect EMFILE'), { code: 'EMFILE', syscall: 'connect' })
  const error = new ProviderError('connection', 'the connection to the provider failed', { cause })
  for (let i = 0; i < 5; i++) fleet.processes[0]!.recordFailure(target, error, 5, key)
  await fleet.exchange()
  for (const health of fleet.processes) t.is(health.figures(target).circuit, 'closed')
  t.is(fleet.processes[1]!.callCounts(target).failures, 0)
})

/** Opens a target's circuit, and lets its cool-down be over. */
async function halfOpen(name: string) {
  const target = targetOf(name)
  for (let i = 0; i < 3; i++) fleet.processes[0]!.recordFailure(target, failure('connection'), 5, key)
  await fleet.exchange()
  await fleet.edit(`${name.split('@')[1]}|${target.model.id}`, {}, { open_until: -1 })
  await fleet.exchange()
  return target
}

test.serial('half open after the cool-down: exactly one call of all processes may try', async t => {
  const target = await halfOpen('gpt-5-nano@openai')
  const racing = fleet.processes.flatMap(health => Array.from({ length: 20 }, () => health.tryAcquire(target)))
  const won = (await Promise.all(racing)).filter(Boolean)
  t.is(won.length, 1)
  for (const health of fleet.processes) {
    t.is(health.figures(target).circuit, 'half_open')
    t.false(await health.tryAcquire(target))
  }
  // A process that dies with its trial leaves it to another.
  const ttlMs = await fleet.redis.pttl('health:trial:openai|gpt-5-nano')
  t.true(ttlMs > 0 && ttlMs <= 10_000)
})

test.serial('closed again on every process when the trial succeeds, and what failed before is forgotten', async t => {
  const target = await halfOpen('claude-opus-4-7@anthropic')
  const [a] = fleet.processes
  t.true(await a!.tryAcquire(target))
  a!.recordSuccess(target, 40)
  await fleet.exchange()
  for (const health of fleet.processes) {
    t.like(health.figures(target), { circuit: 'closed', cooldownMs: 0, failureRate: 0 })
    t.true(await health.tryAcquire(target))
  }
})

test.serial('open again on every process when the trial fails', async t => {
  const target = await halfOpen('claude-opus-4-6@anthropic')
  const [a, b] = fleet.processes
  t.true(await a!.tryAcquire(target))
  a!.recordFailure(target, failure('server_error'), minuteMs, key)
  await a!.sync()
  t.is(b!.figures(target).circuit, 'half_open')
  t.false(await b!.tryAcquire(target), 'nor by a process that has not heard of it yet')
  await fleet.exchange()
  for (const health of fleet.processes) {
    t.is(health.figures(target).circuit, 'open')
    t.true(health.figures(target).cooldownMs > 0)
  }
})

test.serial('closed at the first byte of a stream, and open again with the very next failure', async t => {
  const target = await halfOpen('claude-opus-4-5@anthropic')
  const [a, b] = fleet.processes
  t.true(await a!.tryAcquire(target))
  a!.recordFirstByte(target, 90)
  await fleet.exchange()
  t.is(b!.figures(target).circuit, 'closed')
  a!.recordFailure(target, failure('truncated'), minuteMs, key)
  await fleet.exchange()
  t.is(b!.figures(target).circuit, 'open')
})

test.serial('half open and free to try again when a trial told nothing', async t => {
  const target = await halfOpen('claude-sonnet-4-6@anthropic')
  const [a, b] = fleet.processes
  t.true(await a!.tryAcquire(target))
  t.false(await b!.tryAcquire(target))
  a!.releaseProbe(target)
  await eventually(() => b!.tryAcquire(target), 'the other process may try')
  t.is(b!.figures(target).circuit, 'half_open')
})

test.serial('open for as long as its callers waited in vain, at least a second and at most a minute', async t => {
  const names = ['gpt-oss-120b@groq', 'gpt-oss-120b@together', 'gpt-oss-120b@fireworks'] as const
  const wastedMs = [30_000, 300_000, 10]
  const [a] = fleet.processes
  for (const [index, name] of names.entries())
    for (let i = 0; i < 3; i++) a!.recordFailure(targetOf(name), failure('timeout'), wastedMs[index]!, key)
  await fleet.exchange()
  const openMs = names.map(async name => {
    const { open_until, at } = await fleet.record(`${name.split('@')[1]}|gpt-oss-120b`)
    return open_until - at
  })
  t.deepEqual(await Promise.all(openMs), [30_000, minuteMs, 1_000])
})

test.serial('an API key rests alone for its model after 429 with Retry-After, while there are others', async t => {
  const target = targetOf('gpt-4.1@openai')
  const [a, b] = fleet.processes
  a!.recordFailure(target, failure('rate_limited', 30_000), 5, one)
  t.true(a!.keyCooldownMs(target, 'key1') > 29_000, 'the very next call knows')
  await fleet.exchange()
  for (const health of [a!, b!]) {
    t.true(health.keyCooldownMs(target, 'key1') > 29_000)
    t.is(health.keyCooldownMs(target, 'key2'), 0)
    t.is(health.keyCooldownMs(targetOf('gpt-4o@openai'), 'key1'), 0)
    t.like(health.figures(target), { circuit: 'closed', cooldownMs: 0, failureRate: 0 })
  }
})

test.serial('an API key rests for every model for a minute after 401, while there are others', async t => {
  const [a, b] = fleet.processes
  a!.recordFailure(targetOf('gpt-4.1-mini@openai'), failure('auth'), 5, { id: 'key3', alone: false })
  await fleet.exchange()
  t.true(b!.keyCooldownMs(targetOf('gpt-4o@openai'), 'key3') > 59_000)
  t.is(b!.keyCooldownMs(targetOf('gpt-4o@openai'), 'key4'), 0)
})

test.serial('a provider itself rests after 503 with Retry-After, its only key’s 401 counts as its failure', async t => {
  const target = targetOf('gpt-4o-mini@openai')
  const [a, b] = fleet.processes
  a!.recordFailure(target, failure('overloaded', 5_000), 5, key)
  t.true(a!.figures(target).cooldownMs > 4_900, 'the very next call knows')
  await fleet.exchange()
  t.true(b!.figures(target).cooldownMs > 4_000)
  t.is(b!.figures(target).circuit, 'closed')
  const other = targetOf('o3@openai')
  for (let i = 0; i < 3; i++) a!.recordFailure(other, failure('auth'), minuteMs, key)
  await fleet.exchange()
  t.is(b!.figures(other).circuit, 'open')
  t.is(b!.keyCooldownMs(other, key.id), 0)
})

test.serial('no cooldown exceeds an hour, whatever a provider asks for', async t => {
  const [a, b] = fleet.processes
  a!.recordFailure(targetOf('gpt-5.1@openai'), failure('overloaded', 1e12), 5, key)
  a!.recordFailure(targetOf('gpt-5.1@openai'), failure('rate_limited', 1e12), 5, key)
  await fleet.exchange()
  t.is(Math.round(b!.figures(targetOf('gpt-5.1@openai')).cooldownMs / 60_000), 60)
  t.is(Math.round(b!.keyCooldownMs(targetOf('gpt-5.1@openai'), key.id) / 60_000), 60)
})

test.serial(
  'latency and speed are smoothed, weighed by the number of calls, and the same on every process',
  async t => {
    const target = targetOf('gemini-2.5-flash@gemini')
    const [a, b, c] = fleet.processes
    a!.recordFirstByte(target, 100)
    a!.recordSuccess(target, 50)
    await fleet.exchange()
    t.like(b!.figures(target), { firstByteMs: 100, tokensPerSecond: 50 })
    b!.recordFirstByte(target, 200)
    b!.recordSuccess(target, null)
    await fleet.exchange()
    t.like(c!.figures(target), { firstByteMs: 120, tokensPerSecond: 50 })
    for (const firstByteMs of [200, 300, 400]) c!.recordFirstByte(target, firstByteMs)
    for (const speed of [80, 100, 120]) c!.recordSuccess(target, speed)
    await fleet.exchange()
    const { firstByteMs, tokensPerSecond } = a!.figures(target)
    t.is(Math.round(firstByteMs! * 100), Math.round((120 + (300 - 120) * (1 - 0.8 ** 3)) * 100))
    t.is(Math.round(tokensPerSecond! * 100), Math.round((50 + (100 - 50) * (1 - 0.8 ** 3)) * 100))
  },
)
