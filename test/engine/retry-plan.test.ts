import fc from 'fast-check'
import { type RetryBudget, RetryPlan } from '../../shared/engine/failover.ts'
import type { Target } from '../../shared/providers/contract.ts'
import { type FailureReason, ProviderError } from '../../shared/providers/provider-error.ts'
import { fuzzRuns } from '../support/fuzz.ts'
import { test } from '../support/test.ts'

const patience: RetryBudget = { attempts: 5, budgetMs: 90_000, pauseMs: 10_000 }
// The plan tells targets and their models apart and looks at nothing in them.
const model = { id: 'model' }
const target = (name: string, of = model) => ({ model: of, provider: { name } }) as Target
const [a, b, c] = [target('a'), target('b'), target('c')]
const other = target('other', { id: 'other' })
const fail = (reason: FailureReason, retryAfterMs?: number) =>
  new ProviderError(reason, reason, retryAfterMs === undefined ? {} : { retryAfterMs })

type Failing = { plan: RetryPlan; nowMs: number }

/** A plan that begins at 0 and, without `random`, never jitters downwards. */
function planOf(targets: Target[], more: Partial<RetryBudget> = {}, random = () => 1): Failing {
  return { plan: new RetryPlan(targets, { ...patience, ...more }, random), nowMs: 0 }
}

/** Goes through a plan while every call fails at once; what was asked in which pause. */
function play(run: Failing, error: ProviderError, otherKey = false): [id: string, pauseMs: number][] {
  const steps: [string, number][] = []
  for (let step = run.plan.next(run.nowMs); step && steps.length < 100; step = run.plan.next(run.nowMs)) {
    run.nowMs += step.pauseMs
    steps.push([step.target.provider.name, step.pauseMs])
    run.plan.startAttempt(step.target, run.nowMs)
    run.plan.recordFailure(step.target, error, otherKey, run.nowMs)
  }
  return steps
}

test('each target is tried once without a pause, in the given order, before any is tried again', t => {
  const steps = play(planOf([b, a, c]), fail('server_error'))
  t.deepEqual(
    steps.map(([id]) => id),
    ['b', 'a', 'c', 'b', 'a'],
  )
  t.deepEqual(
    steps.map(([, pauseMs]) => pauseMs),
    [0, 0, 0, 250, 0],
  )
})

test('no more attempts than allowed, and no more than three of one target', t => {
  t.is(play(planOf([a, b, c], { attempts: 4 }), fail('connection')).length, 4)
  t.is(play(planOf([a, b, c], { attempts: 1 }), fail('connection')).length, 1)
  const lone = play(planOf([a], { attempts: 20 }), fail('overloaded'))
  t.deepEqual(
    lone.map(([, pauseMs]) => pauseMs),
    [0, 250, 500],
  )
})

const once: FailureReason[] = ['invalid_response', 'timeout', 'auth', 'quota', 'model_unavailable']
const again: FailureReason[] = ['connection', 'server_error', 'overloaded', 'rate_limited', 'truncated']
for (const reason of once) {
  test(`a target that failed with ${reason} is not tried again`, t => {
    t.deepEqual(play(planOf([a, b]), fail(reason)), [
      ['a', 0],
      ['b', 0],
    ])
  })
}
for (const reason of again) {
  test(`a target that failed with ${reason} is tried again after a pause`, t => {
    t.is(play(planOf([a]), fail(reason)).length, 3)
  })
}

test('nothing is begun after the budget, nor after a pause that would end beyond it', t => {
  const run = planOf([a, b], { budgetMs: 1_000 })
  run.plan.startAttempt(run.plan.next(0)!.target, 0)
  run.plan.recordFailure(a, fail('timeout'), false, 999)
  t.is(run.plan.next(999)!.target, b)
  t.is(run.plan.next(1_000), null)
  const late = planOf([a], { budgetMs: 1_000 })
  late.plan.startAttempt(late.plan.next(0)!.target, 790)
  late.plan.recordFailure(a, fail('server_error'), false, 800)
  t.is(late.plan.next(800), null)
})

test('the first call may be as silent as the time-outs allow, later ones only for the rest of the budget', t => {
  const { plan } = planOf([a, b], { budgetMs: 5_000 })
  plan.startAttempt(a, 0)
  t.is(plan.remainingMs(0), Number.POSITIVE_INFINITY)
  plan.recordFailure(a, fail('timeout'), false, 3_000)
  plan.startAttempt(b, 3_000)
  t.is(plan.remainingMs(3_000), 2_000)
  t.is(plan.remainingMs(9_000), 1, 'never a time-out of zero, which would be none')
})

test('a provider’s Retry-After is waited for, and the backoff beyond it', t => {
  t.deepEqual(play(planOf([a]), fail('rate_limited', 2_000)), [
    ['a', 0],
    ['a', 2_250],
    ['a', 2_500],
  ])
})

test('all pauses together stay within their budget; a longer Retry-After ends the request at once', t => {
  const steps = play(planOf([a]), fail('rate_limited', 6_000))
  t.deepEqual(steps, [
    ['a', 0],
    ['a', 6_250],
  ])
  t.deepEqual(play(planOf([a]), fail('rate_limited', 60_000)), [['a', 0]])
  t.deepEqual(play(planOf([a], { pauseMs: 0 }), fail('server_error')), [['a', 0]])
})

test('of those to be tried again the one that is back first comes first', t => {
  const { plan } = planOf([a, b])
  for (const [target, retryAfterMs] of [
    [a, 3_000],
    [b, 1_000],
  ] as const) {
    plan.next(0)
    plan.startAttempt(target, 0)
    plan.recordFailure(target, fail('overloaded', retryAfterMs), false, 0)
  }
  t.deepEqual(plan.next(0), { target: b, pauseMs: 1_250 })
  t.deepEqual(plan.next(1_250), { target: a, pauseMs: 2_000 })
})

test('no pause is left where another target took the time', t => {
  const { plan } = planOf([a, b])
  plan.startAttempt(plan.next(0)!.target, 0)
  plan.recordFailure(a, fail('server_error'), false, 0)
  plan.startAttempt(plan.next(0)!.target, 0)
  plan.recordFailure(b, fail('timeout'), false, 4_000)
  t.deepEqual(plan.next(4_000), { target: a, pauseMs: 0 })
})

test('a target is given one quick retry before its model is left for another one', t => {
  const names = (error: ProviderError) => play(planOf([a, other]), error).map(([name]) => name)
  t.deepEqual(play(planOf([a, other]), fail('server_error')).slice(0, 3), [
    ['a', 0],
    ['a', 100],
    ['other', 0],
  ])
  t.deepEqual(play(planOf([a, other]), fail('rate_limited', 1_000)).slice(0, 3), [
    ['a', 0],
    ['a', 1_100],
    ['other', 0],
  ])
  for (const error of [fail('rate_limited', 1_001), fail('rate_limited'), fail('overloaded'), fail('connection')])
    t.deepEqual(names(error).slice(0, 2), ['a', 'other'], `${error.reason} ${error.retryAfterMs}`)
  const between = play(planOf([a, b, other]), fail('server_error'))
  t.deepEqual(
    between.map(([name]) => name),
    ['a', 'b', 'b', 'other', 'a'],
    'not between two providers of one model',
  )
})

test('a quick retry waits until its target has rested, and never for long', t => {
  const { plan } = planOf([a, other])
  plan.startAttempt(plan.next(0)!.target, 0)
  plan.recordFailure(a, fail('rate_limited', 500), false, 0)
  t.deepEqual(plan.next(0), { target: a, pauseMs: 600 })
  plan.deferTarget(a, 40, 600)
  t.deepEqual(plan.next(600), { target: a, pauseMs: 140 })
  plan.deferTarget(a, 40, 740)
  t.deepEqual(plan.next(740), { target: other, pauseMs: 0 })
})

test('not retried when the pause is longer than the request may wait', t => {
  const steps = play(planOf([a, other], { pauseMs: 500 }), fail('rate_limited', 900))
  t.deepEqual(steps, [
    ['a', 0],
    ['other', 0],
  ])
})

test('a call that took more than a twentieth of the budget is not repeated', t => {
  for (const reason of again) {
    const { plan } = planOf([a, other])
    plan.startAttempt(plan.next(0)!.target, 0)
    plan.recordFailure(a, fail(reason), false, 4_501)
    t.deepEqual(plan.next(4_501), { target: other, pauseMs: 0 })
    t.is(plan.next(4_501), null)
  }
  const { plan } = planOf([a])
  plan.startAttempt(plan.next(0)!.target, 0)
  plan.recordFailure(a, fail('connection'), false, 4_500)
  t.deepEqual(plan.next(4_500), { target: a, pauseMs: 250 })
})

test('targets that cannot do better are given up, tried or not', t => {
  const { plan } = planOf([a, b, c])
  plan.startAttempt(plan.next(0)!.target, 0)
  plan.recordFailure(a, fail('connection'), false, 0)
  t.deepEqual(plan.untried, [b, c])
  plan.keepOnly(target => target === c)
  t.deepEqual(plan.next(0), { target: c, pauseMs: 0 })
  t.is(plan.next(0), null)
})

test('another API key is tried at once and before the other targets, within the attempts', t => {
  const { plan } = planOf([a, b])
  plan.startAttempt(plan.next(0)!.target, 0)
  plan.recordFailure(a, fail('rate_limited', 30_000), true, 0)
  t.deepEqual(plan.next(0), { target: a, pauseMs: 0 })
  t.is(play(planOf([a, b]), fail('auth'), true).length, patience.attempts)
})

test('a target that rests is not an attempt, and comes up when its rest is over', t => {
  const { plan } = planOf([a, b], { attempts: 1 })
  plan.deferTarget(plan.next(0)!.target, 700, 0)
  t.deepEqual(plan.next(0), { target: b, pauseMs: 0 })
  plan.deferTarget(b, 20_000, 0)
  t.deepEqual(plan.next(0), { target: a, pauseMs: 950 })
  t.is(plan.next(950), null, 'a wait of 20 s is too long')
})

test('backoff grows, is jittered between half and all of it, and every plan ends', t => {
  const reasons = fc.constantFrom(...once, ...again)
  const failures = fc.array(fc.tuple(reasons, fc.option(fc.nat(8_000)), fc.nat(9_000), fc.boolean()), {
    minLength: 30,
    maxLength: 30,
  })
  const limits = fc.record({ attempts: fc.integer({ min: 1, max: 20 }), pauseMs: fc.nat(20_000) })
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  fc.assert(
    fc.property(failures, limits, random, fc.integer({ min: 1, max: 3 }), (failures, limits, random, count) => {
      const run = planOf([a, b, c].slice(0, count), limits, () => random)
      const tries = new Map<Target, number>()
      const lastFailure = new Map<Target, { atMs: number; minMs: number; maxMs: number; keyed: boolean }>()
      let attempts = 0
      let pausedMs = 0
      for (let step = run.plan.next(0); step; step = run.plan.next(run.nowMs)) {
        const { target, pauseMs } = step
        run.nowMs += pauseMs
        pausedMs += pauseMs
        const last = lastFailure.get(target)
        if (last?.keyed) t.is(pauseMs, 0)
        else if (last) t.true(run.nowMs >= last.atMs + last.minMs && pauseMs <= last.maxMs)
        run.plan.startAttempt(target, run.nowMs)
        tries.set(target, (tries.get(target) ?? 0) + 1)
        const [reason, retryAfterMs, tookMs, keyed] = failures[attempts++]!
        run.nowMs += tookMs
        const askedMs = retryAfterMs ?? 0
        const backoffMs = 250 * 2 ** (tries.get(target)! - 1)
        const bounds = { minMs: askedMs + backoffMs / 2, maxMs: askedMs + backoffMs }
        lastFailure.set(target, { atMs: run.nowMs, ...bounds, keyed })
        run.plan.recordFailure(target, fail(reason, retryAfterMs ?? undefined), keyed, run.nowMs)
      }
      t.true(attempts >= 1 && attempts <= limits.attempts)
      t.true(pausedMs <= limits.pauseMs)
    }),
    { numRuns: fuzzRuns(500) },
  )
})
