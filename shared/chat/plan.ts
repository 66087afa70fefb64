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

const mostPerTarget = 3
const firstBackoffMs = 250

/** What the same target may well do better the next time. A time-out has cost the caller enough. */
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
 * fault may pass, after the pause they asked for or a jittered backoff. Ends when the patience does. Pure: moments are
 * given by the caller.
 */
export class Plan {
  readonly #patience: Patience
  #endsAtMs: number
  readonly #random: () => number
  readonly #fresh: Target[]
  readonly #again: { target: Target; atMs: number }[] = []
  readonly #tries = new Map<Target, number>()
  #attempts = 0
  #pausedMs = 0

  constructor(targets: readonly Target[], patience: Patience, startMs: number, random: () => number = Math.random) {
    this.#fresh = [...targets]
    this.#patience = patience
    this.#endsAtMs = startMs + patience.budgetMs
    this.#random = random
  }

  /** The next step; null when the request has failed for good. */
  next(nowMs: number): Step | null {
    if (this.#attempts >= this.#patience.attempts || nowMs >= this.#endsAtMs) return null
    const target = this.#fresh.shift()
    if (target) return { target, pauseMs: 0 }
    const [soonest] = this.#again.sort((a, b) => a.atMs - b.atMs)
    if (!soonest) return null
    const pauseMs = Math.max(0, soonest.atMs - nowMs)
    if (this.#pausedMs + pauseMs > this.#patience.pauseMs || nowMs + pauseMs >= this.#endsAtMs) return null
    this.#again.shift()
    this.#pausedMs += pauseMs
    return { target: soonest.target, pauseMs }
  }

  /** How long the provider of a call begun now may be silent. */
  remainingMs(nowMs: number): number {
    return this.#attempts <= 1 ? Number.POSITIVE_INFINITY : Math.max(1, this.#endsAtMs - nowMs)
  }

  /** Time passed that does not count. */
  extend(byMs: number): void {
    this.#endsAtMs += byMs
  }

  /** A target is called. */
  began(target: Target): void {
    this.#attempts++
    this.#tries.set(target, (this.#tries.get(target) ?? 0) + 1)
  }

  /** A target rests for `restMs` and was not called. */
  resting(target: Target, restMs: number, nowMs: number): void {
    this.#again.push({ target, atMs: nowMs + restMs + this.#jitter(firstBackoffMs) })
  }

  /** A call failed. `otherKey`: it may be made again at once, with another API key of the same provider. */
  failed(target: Target, error: ProviderError, otherKey: boolean, nowMs: number): void {
    const tries = this.#tries.get(target) ?? 1
    if (tries >= mostPerTarget) return
    if (otherKey) this.#fresh.unshift(target)
    else if (fleeting.has(error.reason)) {
      const backoffMs = this.#jitter(firstBackoffMs * 2 ** (tries - 1))
      this.#again.push({ target, atMs: nowMs + (error.retryAfterMs ?? 0) + backoffMs })
    }
  }

  /** Between half of a time and all of it, so that requests that failed together do not come back together. */
  #jitter(ms: number): number {
    return ms * (0.5 + this.#random() / 2)
  }
}
