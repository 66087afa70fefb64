import { Slab } from '../base/slab.ts'

const ticksPerSilence = 10

/** A stream that sends a keep-alive to its client while its provider is silent. */
export type Heartbeat = { ticks: number; keepAlive(): void }

/** One timer for all open streams of a process: a stream resets its `ticks` whenever it writes. */
export class KeepAlive {
  readonly #tickMs: number
  readonly #streams = new Slab<Heartbeat>()
  #timer: NodeJS.Timeout | null = null

  /** `silenceMs`: how long a stream may be silent before it sends a keep-alive. */
  constructor(silenceMs = 10_000) {
    this.#tickMs = silenceMs / ticksPerSilence
  }

  /** The number of monitored streams. */
  get size(): number {
    return this.#streams.size
  }

  /** Monitors a stream until the returned function is called. */
  monitor(stream: Heartbeat): () => void {
    const key = this.#streams.add(stream)
    this.#timer ??= setInterval(() => this.#tick(), this.#tickMs)
    return () => this.#unwatch(key)
  }

  #unwatch(key: number): void {
    this.#streams.remove(key)
    if (this.#streams.size > 0 || !this.#timer) return
    clearInterval(this.#timer)
    this.#timer = null
  }

  #tick(): void {
    for (const stream of this.#streams.values()) {
      if (++stream.ticks < ticksPerSilence) continue
      stream.ticks = 0
      stream.keepAlive()
    }
  }
}
