import { elapsedMs, longAgo, type MonotonicMs } from '../base/time.ts'
/** The arguments of one exchange through Redis; see concurrency-limiter.lua. */
export type UsageReport = Counts & {
  demand: number
  /** The calls that this process may have in flight until it receives the reply. */
  committed: number
  epoch: number
  retryAfterMs: number
}

type Counts = {
  /** Calls that were answered and refused, of those that began since the last decrease of the limit. */
  answered: number
  refused: number
  /** Answers of the current epoch while other calls waited: the limit was saturated, so it may grow. */
  saturated: number
  /** The epoch of a rate-limited call; -1 = none. */
  limitedEpoch: number
}

/** The call results that this process observed since the last exchange. */
export class CallObservations {
  #answered = 0
  #refused = 0
  #saturated = 0
  #limitedEpoch = -1
  /** The end of the longest `Retry-After` that the provider sent. */
  #retryAtMs = longAgo

  get saturated(): number {
    return this.#saturated
  }

  get hasRateLimit(): boolean {
    return this.#limitedEpoch >= 0
  }

  addAnswer(isSaturated: boolean): void {
    this.#answered++
    if (isSaturated) this.#saturated++
  }

  addRefusal(): void {
    this.#refused++
  }

  addRateLimit(epoch: number, retryAtMs: MonotonicMs): void {
    this.#limitedEpoch = Math.max(this.#limitedEpoch, epoch)
    if (retryAtMs > this.#retryAtMs) this.#retryAtMs = retryAtMs
  }

  /** Adds the refusals and rate limits of a report that was not delivered; its answers are lost. */
  restore(undelivered: CallObservations): void {
    this.#refused += undelivered.#refused
    this.addRateLimit(undelivered.#limitedEpoch, undelivered.#retryAtMs)
  }

  /** Forgets the results of calls that began before a new epoch, and those from before a decrease of the limit. */
  startEpoch(isAfterDecrease: boolean): void {
    this.#saturated = 0
    if (isAfterDecrease) this.#answered = this.#refused = 0
  }

  report(nowMs: MonotonicMs): Counts & { retryAfterMs: number } {
    return {
      answered: this.#answered,
      refused: this.#refused,
      saturated: this.#saturated,
      limitedEpoch: this.#limitedEpoch,
      retryAfterMs: Math.max(0, elapsedMs(nowMs, this.#retryAtMs)),
    }
  }
}
