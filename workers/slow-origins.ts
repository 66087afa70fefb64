import { LRUCache } from 'lru-cache'

/** An origin that took this long once counts as slow for a while. */
const slowMs = 5_000
const slowForMs = 60_000
/** So few may wait for one slow origin at once. */
const mostWaiting = 10

type Origin = { waiting: number; slowUntilMs: number }

/** Keeps a receiver that hangs from taking up every slot of a worker: it gets few at a time until it is quick again. */
export class SlowOrigins {
  readonly #origins = new LRUCache<string, Origin>({ max: 10_000 })

  /** Takes a place. False when the origin is slow and has no place left. */
  enter(origin: string, nowMs: number): boolean {
    const known = this.#origins.get(origin) ?? { waiting: 0, slowUntilMs: 0 }
    if (nowMs < known.slowUntilMs && known.waiting >= mostWaiting) return false
    known.waiting++
    this.#origins.set(origin, known)
    return true
  }

  /** Gives the place back, with how long it was taken. */
  leave(origin: string, nowMs: number, tookMs: number): void {
    const known = this.#origins.get(origin)
    if (!known) return
    known.waiting--
    if (tookMs >= slowMs) known.slowUntilMs = nowMs + slowForMs
  }
}
