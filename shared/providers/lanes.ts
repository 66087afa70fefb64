import type { Clock } from '../base/time.ts'
import type { Redis } from '../io/redis.ts'

/** A call that a lane let through. `end` frees its place, once; `refused`: the provider has too much to do (429, 529). */
export type Slot = {
  end(outcome: 'answered' | 'refused' | 'failed', retryAfterMs?: number | null): void
}

export type Turn = {
  /** Whoever must be done first goes first. */
  deadlineMs: number
  /** Gives the place in the queue up. */
  signal: AbortSignal
}

/** The lanes of delayed work: how many of its calls may be in flight at each provider, of all workers together. */
export class Lanes {
  constructor(_options: { redis: Redis; clock: Clock; most: number }) {}

  /** Waits for its turn at a provider. Rejects with a GatewayError 503 after a while, or once `signal` is aborted. */
  async enter(_provider: string, _turn: Turn): Promise<Slot> {
    return { end() {} }
  }

  close(): void {}
}
