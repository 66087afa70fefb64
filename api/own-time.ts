import { elapsedMs, preciseMonotonic } from '../shared/base/time.ts'
/** Measures the gateway's own part of a request: its duration without the time spent waiting for others. */
export class OwnTime {
  readonly #startedMs = preciseMonotonic.now()
  #waitedMs = 0
  #waitingSinceMs = this.#startedMs
  /** Whether its waits for providers are measured: those of media requests are not. */
  hasCalls = false

  beginWait(): void {
    this.#waitingSinceMs = preciseMonotonic.now()
  }

  endWait(): void {
    this.#waitedMs += elapsedMs(this.#waitingSinceMs, preciseMonotonic.now())
  }

  /** The gateway's own time so far. */
  get ms(): number {
    return elapsedMs(this.#startedMs, preciseMonotonic.now()) - this.#waitedMs
  }
}
