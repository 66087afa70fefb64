import type { Target } from '../providers/contract.ts'
import type { FailureReason, ProviderError } from '../providers/provider-error.ts'

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
export type RetryStep = { target: Target; pauseMs: number }

type Retry = { target: Target; atMs: number }

const maxPerTarget = 3
/** What a model wrote wrongly once, it may write wrongly again, and each time is paid. */
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
