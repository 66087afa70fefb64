import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import { elapsedMs, type MonotonicMs } from '../base/time.ts'
import type { Permit } from '../limiter/concurrency-limiter.ts'
import type { Target } from '../providers/contract.ts'
import { type FailureReason, isRequestFault, ProviderError } from '../providers/provider-error.ts'
import type { Route } from '../providers/upstreams.ts'
import { hasLargerContext } from '../routing/larger-context.ts'
import { noTargetNowError } from '../routing/no-target-errors.ts'
import type { StickyTarget } from '../routing/router.ts'
import type { Pause } from '../wallet/routing-record.ts'
import { CallMonitor, type RunServices } from './base-run.ts'
import { isCutByCaller } from './cut-calls.ts'
import { ClientGone, type FailedAttempt, isKeyFault, timingOf } from './failures.ts'
import { type ClientPresence, goneSignal } from './response-writer.ts'

/** Delayed work: its organisation, its discount in parts per million, and its deadline. */
export type BulkContext = { owner: string; discountPpm: bigint; deadlineMs: number }

/** Timeout of a sandbox call for delayed work of test keys. */
const maxSandboxBulkMs = 5_000

/** The targets and limits of one failover. */
type FailoverOptions = {
  targets: readonly Target[]
  /** False for test keys: their calls go to the sandbox, whose failures do not affect provider health. */
  live: boolean
  sticky: StickyTarget | null
  /** When the request began. */
  beganMs: MonotonicMs
  client: ClientPresence
  /** Failed attempts so far, for the error and the log. */
  failedAttempts: FailedAttempt[]
  /** Delayed work, which needs a permit of each provider's concurrency limiter; null for interactive requests. */
  bulk: BulkContext | null
  /** The error of a request that exceeds the context of the model it names, thrown if no larger model answers. */
  overflow?: GatewayError | null
  /** Maximum silence of a target before the next target is called; absent = the provider's own timeout. */
  maxSilenceMs?(target: Target): number
  /** The caller's own limit of each call: to its first token, or to a whole answer; absent = none. */
  maxFirstTokenMs?: number | undefined
  /** Aborted with a GatewayError to end the failover while the client is still connected. */
  signal: AbortSignal
}

/**
 * Calls the targets of a request in order until `call` resolves for one. Skips targets in cooldown, records each
 * failure in the shared health figures, and stays within the retry budget. A prompt that is too long for one target is
 * sent to larger ones only. Rejects with the first context-length error, with an error of the request itself, with the
 * last target's error, with ClientGone, or with a 503 when all targets are in cooldown.
 */
export async function failover<T>(
  services: RunServices,
  options: FailoverOptions,
  call: (monitor: CallMonitor) => Promise<T>,
): Promise<T> {
  const { monotonic, config } = services
  const { client, failedAttempts, live, signal, beganMs } = options
  const passedMs = () => elapsedMs(beganMs, monotonic.now())
  // Retrying the sandbox would return the same error.
  const budget = live ? config.retry : { ...config.retry, pauseMs: 0 }
  const plan = new RetryPlan(options.targets, budget)
  let overflow: unknown = options.overflow
  let failure: unknown = null
  let unsupported: GatewayError | null = null
  let pause: Pause | null = null
  let reason: Pause['reason'] = 'backoff'
  for (let step = plan.next(passedMs()); step; step = plan.next(passedMs())) {
    const { target } = step
    if (step.pauseMs > 0) {
      await waitFor(step.pauseMs, client, signal)
      pause = longer(pause, step.pauseMs, reason)
    }
    signal.throwIfAborted()
    if (client.gone) throw new ClientGone()
    const cooldown = live ? cooldownMsOf(services, target) : 0
    const cooldownMs = typeof cooldown === 'number' ? cooldown : await cooldown
    if (cooldownMs > 0) {
      plan.deferTarget(target, cooldownMs, passedMs())
      reason = 'cooldown'
      continue
    }
    const probes = typeof cooldown !== 'number'
    const askedMs = passedMs()
    const permit =
      options.bulk && live
        ? await acquirePermit(services, options, options.bulk, plan, target).catch(error => {
            if (probes) services.health.releaseProbe(target)
            throw error
          })
        : null
    const startedMs = permit ? passedMs() : askedMs
    if (startedMs > askedMs) pause = longer(pause, startedMs - askedMs, 'concurrency')
    plan.startAttempt(target, startedMs)
    const route = routeTo(services, options, target, plan.remainingMs(startedMs), plan.untried)
    const monitor = new CallMonitor(services, route, { trace: client.trace, pause, probes })
    pause = null
    reason = 'backoff'
    try {
      const answer = await call(monitor)
      permit?.release('answered')
      monitor.end()
      return answer
    } catch (thrown) {
      const error = withoutSecret(thrown, route)
      const isBusy = (permit !== null || target.tier === 'flex') && isOverload(error)
      permit?.release(isBusy ? outcomeOf(error) : 'failed', isBusy ? error.retryAfterMs : null)
      if (!(error instanceof ProviderError) || isRequestFault(error)) monitor.recordAbandonment()
      if (error instanceof GatewayError && error.code === 'unsupported_capability') {
        unsupported ??= error // Another provider of the model may have a dialect that can express the request.
        continue
      }
      monitor.end(error)
      if (!(error instanceof ProviderError)) throw error
      failure = error
      failedAttempts.push({ target, error, durationMs: monitor.elapsedMs, ...timingOf(monitor) })
      if (isRequestFault(error)) {
        if (error.reason !== 'context_length') throw overflow ?? error
        overflow ??= error
        plan.keepOnly(other => hasLargerContext(other, target))
        continue
      }
      // Overload caused by delayed work, or of the cheap tier, does not count against the provider's health for other
      // requests, and the impatience of one caller does not either.
      if (isBusy || isCutByCaller(monitor, error)) monitor.recordAbandonment()
      else monitor.recordFailure(error)
      const hasOtherKey = isKeyFault(error.reason) && !error.unsent && !route.alone
      plan.recordFailure(target, error, hasOtherKey, passedMs())
    }
  }
  const figures = options.targets.map(target => services.upstreams.figures(target))
  throw overflow ?? failure ?? unsupported ?? noTargetNowError(figures)
}

/** An error without the API key of its call, which the provider may have quoted. */
export function withoutSecret(error: unknown, { credential }: Route): unknown {
  return error instanceof ProviderError && credential ? error.without(credential.secret) : error
}

/** Acquires a permit of the provider's limiter for delayed work; the waiting time is added to the retry budget. */
async function acquirePermit(
  services: RunServices,
  { client }: FailoverOptions,
  bulk: BulkContext,
  plan: RetryPlan,
  target: Target,
): Promise<Permit> {
  const fromMs = services.monotonic.now()
  const waiter = { owner: bulk.owner, deadlineMs: bulk.deadlineMs, signal: goneSignal(client) }
  const permit = await services.limiter.acquire(target.own?.lane ?? target.provider.name, waiter).catch(error => {
    throw client.gone ? new ClientGone() : error
  })
  plan.extend(elapsedMs(fromMs, services.monotonic.now()))
  return permit
}

function isOverload(error: unknown): error is ProviderError {
  return error instanceof ProviderError && (error.reason === 'rate_limited' || error.reason === 'overloaded')
}

/** The outcome reported to the limiter: a refusal without a limit or a delay slows down no other requests. */
function outcomeOf({ reason, retryAfterMs }: ProviderError): 'limited' | 'overloaded' {
  return reason === 'rate_limited' || retryAfterMs !== null ? 'limited' : 'overloaded'
}

/** Remaining cooldown of a target in milliseconds; 0 = callable. A promise where the call would be the half-open probe. */
function cooldownMsOf({ upstreams, health }: RunServices, target: Target): number | Promise<number> {
  const { cooldownMs, circuit } = upstreams.figures(target)
  if (cooldownMs > 0 || circuit === 'closed') return cooldownMs
  return health.tryAcquire(target).then(entered => (entered ? cooldownMs : upstreams.figures(target).cooldownMs))
}

function routeTo(
  { upstreams }: RunServices,
  options: FailoverOptions,
  target: Target,
  remainingMs: number,
  untried: readonly Target[],
): Route {
  const { live, sticky, bulk, maxFirstTokenMs = Number.POSITIVE_INFINITY } = options
  if (!live) {
    // A sandbox directive must not occupy a worker slot for a minute.
    const withinMs = Math.min(remainingMs, maxFirstTokenMs, bulk ? maxSandboxBulkMs : Number.POSITIVE_INFINITY)
    return { target, credential: null, alone: true, withinMs, tokenWithinMs: maxFirstTokenMs }
  }
  // The first-token timeout applies only while another target is available.
  const hasAlternative = !bulk && untried.some(other => upstreams.figures(other).cooldownMs === 0)
  const maxSilenceMs = (hasAlternative && options.maxSilenceMs?.(target)) || Number.POSITIVE_INFINITY
  const tokenWithinMs = Math.min(maxSilenceMs, maxFirstTokenMs)
  const callerWithinMs = maxFirstTokenMs < maxSilenceMs ? maxFirstTokenMs : undefined
  const withinMs = Math.min(remainingMs, tokenWithinMs)
  const isSticky = sticky?.provider === target.provider.name
  const { credential, alone } = upstreams.credential(target, isSticky ? sticky.credentialId : null)
  return { target, credential, alone, withinMs, tokenWithinMs, callerWithinMs }
}

/** A wait that follows another one before the same call. */
function longer(earlier: Pause | null, ms: number, reason: Pause['reason']): Pause {
  return { ms: (earlier?.ms ?? 0) + Math.round(ms), reason }
}

/** Sleeps until the delay ends, the client disconnects or `signal` aborts. */
async function waitFor(ms: number, client: ClientPresence, signal: AbortSignal): Promise<void> {
  client.beginWait?.()
  await sleep(ms, undefined, { signal: AbortSignal.any([goneSignal(client), signal]) }).catch(() => {})
  client.endWait?.()
}

/** Limits on the retries of one request. */
export type RetryBudget = {
  /** Maximum calls over all targets. */
  attempts: number
  /** No call starts later than this after the request began. */
  budgetMs: number
  /** Maximum total delay before retries. */
  pauseMs: number
}

/** The next target, and the delay before its call. */
type RetryStep = { target: Target; pauseMs: number }

type Retry = { target: Target; atMs: number }

const maxPerTarget = 3
/** Each invalid answer is billed by the provider, so it is retried once. */
const maxModelFaults = 2
const firstBackoffMs = 250
/**
 * A call that took more than this fraction of the budget is not retried: two more would use up the time of other
 * targets.
 */
const maxRepeatablePart = 1 / 20
/**
 * Maximum `Retry-After` for a quick retry before the request falls back to another model, and the additional backoff.
 */
const maxQuickDelayMs = 1_000
const quickBackoffMs = 100

/**
 * Transient failures: the same target may succeed on retry. An answer that cannot be read is not among them: it was
 * made and paid, and the next one would have the same form.
 */
const transientReasons: ReadonlySet<FailureReason> = new Set([
  'connection',
  'server_error',
  'overloaded',
  'rate_limited',
  'truncated',
  'model_fault',
])

/**
 * The order in which one request calls its targets: each once, without a delay between different ones; then retries of
 * targets with transient failures, after their Retry-After or a jittered backoff. Before the request falls back to
 * another model, one failure that is likely to pass gets a quick retry. Ends when the retry budget is exhausted. Pure:
 * the caller passes the time, in milliseconds since the request began.
 */
export class RetryPlan {
  readonly #budget: RetryBudget
  #endsAtMs: number
  readonly #random: () => number
  #untried: Target[]
  #retries: Retry[] = []
  /** The retry that precedes the untried targets, and the only target that has received one. */
  #quickRetry: Retry | null = null
  #quickTarget: Target | null = null
  #hasDeferredQuickRetry = false
  /** The target of each call, in order. */
  readonly #attempts: Target[] = []
  #attemptStartedMs = 0
  #pausedMs = 0

  constructor(targets: readonly Target[], budget: RetryBudget, random: () => number = Math.random) {
    this.#untried = [...targets]
    this.#budget = budget
    this.#endsAtMs = budget.budgetMs
    this.#random = random
  }

  /** The next step; null when no attempt is left. */
  next(nowMs: number): RetryStep | null {
    if (this.#attempts.length >= this.#budget.attempts || nowMs >= this.#endsAtMs) return null
    const quickRetry = this.#quickRetry
    this.#quickRetry = null
    const step = quickRetry && this.#stepOf(quickRetry, nowMs)
    if (step) return step
    if (quickRetry) this.#retries.push(quickRetry)
    const target = this.#untried.shift()
    if (target) return { target, pauseMs: 0 }
    const earliest = this.#retries.sort((a, b) => a.atMs - b.atMs).shift()
    return earliest ? this.#stepOf(earliest, nowMs) : null
  }

  /** Targets not called yet. */
  get untried(): readonly Target[] {
    return this.#untried
  }

  /** Drops the targets for which `isUseful` returns false. */
  keepOnly(isUseful: (target: Target) => boolean): void {
    this.#untried = this.#untried.filter(isUseful)
    this.#retries = this.#retries.filter(({ target }) => isUseful(target))
  }

  /** Maximum silence of the provider in a call started now. */
  remainingMs(nowMs: number): number {
    return this.#attempts.length <= 1 ? Number.POSITIVE_INFINITY : Math.max(1, this.#endsAtMs - nowMs)
  }

  /** Extends the deadline by time that does not count. */
  extend(byMs: number): void {
    this.#endsAtMs += byMs
  }

  /** Records the start of a call. */
  startAttempt(target: Target, nowMs: number): void {
    this.#attempts.push(target)
    this.#attemptStartedMs = nowMs
  }

  /** Records that a target was skipped because its cooldown lasts another `cooldownMs`. */
  deferTarget(target: Target, cooldownMs: number, nowMs: number): void {
    const retry = { target, atMs: nowMs + cooldownMs + this.#jitter(firstBackoffMs) }
    // The shared cooldown may end slightly later than the provider's Retry-After.
    const isDeferrable = target === this.#quickTarget && cooldownMs <= firstBackoffMs && !this.#hasDeferredQuickRetry
    this.#hasDeferredQuickRetry ||= isDeferrable
    if (isDeferrable) this.#quickRetry = { target, atMs: nowMs + cooldownMs + this.#jitter(quickBackoffMs) }
    else this.#retries.push(retry)
  }

  /** Records a failed call. `hasOtherKey`: another API key of the same provider can be used at once. */
  recordFailure(target: Target, error: ProviderError, hasOtherKey: boolean, nowMs: number): void {
    const tries = this.#attempts.filter(attempted => attempted === target).length
    if (tries >= (error.reason === 'model_fault' ? maxModelFaults : maxPerTarget)) return
    if (hasOtherKey) {
      this.#untried.unshift(target)
      return
    }
    const wasSlow = nowMs - this.#attemptStartedMs > this.#budget.budgetMs * maxRepeatablePart
    if (wasSlow || !transientReasons.has(error.reason)) return
    const isQuick = this.#allowsQuickRetry(target, error)
    const backoffMs = this.#jitter(isQuick ? quickBackoffMs : firstBackoffMs * 2 ** (tries - 1))
    const retry = { target, atMs: nowMs + (error.retryAfterMs ?? 0) + backoffMs }
    if (!isQuick) this.#retries.push(retry)
    else this.#quickRetry = retry
    if (isQuick) this.#quickTarget = target
  }

  /** Allows one quick retry to stay with the model; another provider of the same model is preferred to a retry. */
  #allowsQuickRetry({ model }: Target, { reason, retryAfterMs }: ProviderError): boolean {
    const [next] = this.#untried
    if (this.#quickTarget || !next || next.model === model) return false
    return retryAfterMs === null ? reason === 'server_error' : retryAfterMs <= maxQuickDelayMs
  }

  /** The step of a retry; null when its delay exceeds the budget. */
  #stepOf({ target, atMs }: Retry, nowMs: number): RetryStep | null {
    const pauseMs = Math.max(0, atMs - nowMs)
    if (this.#pausedMs + pauseMs > this.#budget.pauseMs || nowMs + pauseMs >= this.#endsAtMs) return null
    this.#pausedMs += pauseMs
    return { target, pauseMs }
  }

  /** A random value between half of `ms` and `ms`, so that requests that failed together do not retry together. */
  #jitter(ms: number): number {
    return ms * (0.5 + this.#random() / 2)
  }
}
