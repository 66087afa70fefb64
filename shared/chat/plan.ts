import type { FailureReason, ProviderError, Target } from '../providers/contract.ts'

/** How long and how often a request is tried. */
export type Patience = {
  /** Calls in all, over all targets. */
  attempts: number
  /** Nothing is begun later than this after the request came in. */
  budgetMs: number
  /** All pauses together before targets are tried again. */
  pauseMs: number
}

/** Whom to ask next, and how long to wait before. */
export type Step = { target: Target; pauseMs: number }

type Retry = { target: Target; atMs: number }

const maxPerTarget = 3
const firstBackoffMs = 250
/** A call that took more than this part of the budget is not repeated: two more like it would leave nothing for anybody else. */
const maxRepeatablePart = 1 / 20
/** The longest `Retry-After` that is waited for before the model is left for another one, and the backoff beyond it. */
const maxQuickDelayMs = 1_000
const quickBackoffMs = 100

/** What the same target may well do better the next time. */
const fleeting: ReadonlySet<FailureReason> = new Set([
  'connection',
  'server_error',
  'overloaded',
  'rate_limited',
  'truncated',
  'invalid_response',
])

/**
 * The order in which one request tries its targets: each once, without a pause between different ones; then those whose
 * fault may pass, after the pause they asked for or a jittered backoff. Before the request leaves a model for another one, a
 * fault that may pass at once is given one quick retry. Ends when the patience does. Pure: moments are given by the caller.
 */
export class Plan {
  readonly #patience: Patience
  #endsAtMs: number
  readonly #random: () => number
  #fresh: Target[]
  #again: Retry[] = []
  /** The retry that comes before the fresh targets, and the one target that ever got one. */
  #quick: Retry | null = null
  #quickTarget: Target | null = null
  #wasLate = false
  /** The target of each call, in their order. */
  readonly #calls: Target[] = []
  #beganMs = 0
  #pausedMs = 0

  constructor(targets: readonly Target[], patience: Patience, startMs: number, random: () => number = Math.random) {
    this.#fresh = [...targets]
    this.#patience = patience
    this.#endsAtMs = startMs + patience.budgetMs
    this.#random = random
  }

  /** The next step; null when the request has failed for good. */
  next(nowMs: number): Step | null {
    if (this.#calls.length >= this.#patience.attempts || nowMs >= this.#endsAtMs) return null
    const quick = this.#quick
    this.#quick = null
    const step = quick && this.#after(quick, nowMs)
    if (step) return step
    if (quick) this.#again.push(quick)
    const target = this.#fresh.shift()
    if (target) return { target, pauseMs: 0 }
    const soonest = this.#again.sort((a, b) => a.atMs - b.atMs).shift()
    return soonest ? this.#after(soonest, nowMs) : null
  }

  /** Targets that were not tried yet. */
  get fresh(): readonly Target[] {
    return this.#fresh
  }

  /** Gives up the targets of which `isWorth` does not hold. */
  keepOnly(isWorth: (target: Target) => boolean): void {
    this.#fresh = this.#fresh.filter(isWorth)
    this.#again = this.#again.filter(({ target }) => isWorth(target))
  }

  /** How long the provider of a call begun now may be silent. */
  remainingMs(nowMs: number): number {
    return this.#calls.length <= 1 ? Number.POSITIVE_INFINITY : Math.max(1, this.#endsAtMs - nowMs)
  }

  /** Time passed that does not count. */
  extend(byMs: number): void {
    this.#endsAtMs += byMs
  }

  /** A target is called. */
  began(target: Target, nowMs: number): void {
    this.#calls.push(target)
    this.#beganMs = nowMs
  }

  /** A target rests for `restMs` and was not called. */
  resting(target: Target, restMs: number, nowMs: number): void {
    const retry = { target, atMs: nowMs + restMs + this.#jitter(firstBackoffMs) }
    // The pause that a provider asked for may end a little later than its answer said.
    const isLate = target === this.#quickTarget && restMs <= firstBackoffMs && !this.#wasLate
    this.#wasLate ||= isLate
    if (isLate) this.#quick = { target, atMs: nowMs + restMs + this.#jitter(quickBackoffMs) }
    else this.#again.push(retry)
  }

  /** A call failed. `otherKey`: it may be made again at once, with another API key of the same provider. */
  failed(target: Target, error: ProviderError, otherKey: boolean, nowMs: number): void {
    const tries = this.#calls.filter(called => called === target).length
    if (tries >= maxPerTarget) return
    if (otherKey) {
      this.#fresh.unshift(target)
      return
    }
    const wasLong = nowMs - this.#beganMs > this.#patience.budgetMs * maxRepeatablePart
    if (wasLong || !fleeting.has(error.reason)) return
    const isQuick = this.#isWorthAQuickRetry(target, error)
    const backoffMs = this.#jitter(isQuick ? quickBackoffMs : firstBackoffMs * 2 ** (tries - 1))
    const retry = { target, atMs: nowMs + (error.retryAfterMs ?? 0) + backoffMs }
    if (!isQuick) this.#again.push(retry)
    else this.#quick = retry
    if (isQuick) this.#quickTarget = target
  }

  /** Staying with the model is worth one quick retry; another provider of the same model is asked at once. */
  #isWorthAQuickRetry({ model }: Target, { reason, retryAfterMs }: ProviderError): boolean {
    const [next] = this.#fresh
    if (this.#quickTarget || !next || next.model === model) return false
    return retryAfterMs === null ? reason === 'server_error' : retryAfterMs <= maxQuickDelayMs
  }

  /** The step of a retry; null where its pause is longer than the patience. */
  #after({ target, atMs }: Retry, nowMs: number): Step | null {
    const pauseMs = Math.max(0, atMs - nowMs)
    if (this.#pausedMs + pauseMs > this.#patience.pauseMs || nowMs + pauseMs >= this.#endsAtMs) return null
    this.#pausedMs += pauseMs
    return { target, pauseMs }
  }

  /** Between half of a time and all of it, so that requests that failed together do not come back together. */
  #jitter(ms: number): number {
    return ms * (0.5 + this.#random() / 2)
  }
}
