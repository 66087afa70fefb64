const ticksPerSilence = 10

/** A stream that wants a sign of life sent to its client while its provider is silent. */
export type Silent = { ticks: number; keepAlive(): void }

/** One timer for all open streams of a process: a stream resets its `ticks` whenever it writes. */
export class KeepAlive {
  readonly #tickMs: number
  readonly #streams = new Set<Silent>()
  #timer: NodeJS.Timeout | null = null

  /** `silenceMs`: how long a stream stays without any sign (contract §4). */
  constructor(silenceMs = 10_000) {
    this.#tickMs = silenceMs / ticksPerSilence
  }

  watch(stream: Silent): void {
    this.#streams.add(stream)
    this.#timer ??= setInterval(() => this.#tick(), this.#tickMs)
  }

  unwatch(stream: Silent): void {
    this.#streams.delete(stream)
    if (this.#streams.size > 0 || !this.#timer) return
    clearInterval(this.#timer)
    this.#timer = null
  }

  #tick(): void {
    for (const stream of this.#streams) {
      if (++stream.ticks < ticksPerSilence) continue
      stream.ticks = 0
      stream.keepAlive()
    }
  }
}
