/** Measures the gateway's own part of a request: its duration without the time spent waiting for others. */
export class OwnTime {
  readonly #startedMs = performance.now()
  #waitedMs = 0
  #waitingSinceMs = 0
  /** Whether its waits for providers are measured: those of media requests are not. */
  hasCalls = false

  beginWait(): void {
    this.#waitingSinceMs = performance.now()
  }

  endWait(): void {
    this.#waitedMs += performance.now() - this.#waitingSinceMs
  }

  /** The gateway's own time so far. */
  get ms(): number {
    return performance.now() - this.#startedMs - this.#waitedMs
  }
}
