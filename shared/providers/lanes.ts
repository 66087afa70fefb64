import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Clock } from '../base/time.ts'
import { openSubscriber, type Redis } from '../io/redis.ts'
import { Lane, type Slot, type Turn } from './lane.ts'
import { type Answer, leaseMs, longestPauseMs, pauseMs, type Tidings } from './share.ts'

export type { Slot, Turn } from './lane.ts'

type Options = {
  redis: Redis
  clock: Clock
  /** Most calls in flight at one provider, of all processes together. */
  most: number
}

const script = 'headgate:lanes'
const channel = 'lanes'
/** Where a limit starts that nothing is known of. */
const firstLimit = 16

/**
 * The lanes of delayed work: how many of its calls may be in flight at each provider, of all workers together. The limit
 * grows while the provider answers and is halved when it refuses too many calls (see docs/decisions/bulk-concurrency.md). A
 * process that has no such work has no timer and no traffic.
 */
export class Lanes {
  readonly #options: Options
  readonly #process = randomUUID()
  // Bounded by the catalog.
  readonly #lanes = new Map<string, Lane>()
  #listening: Redis | null = null

  constructor(options: Options) {
    this.#options = options
    options.redis.defineCommand(script, {
      numberOfKeys: 0,
      lua: readFileSync(new URL('./lanes.lua', import.meta.url), 'utf8'),
    })
  }

  /**
   * Waits for its turn at a provider, at most a minute. Rejects with a GatewayError 503 when that is not enough, when the
   * provider asked for a longer pause, or when too many wait; with the signal's reason once `signal` is aborted.
   */
  enter(provider: string, turn: Turn): Promise<Slot> {
    return (this.#lanes.get(provider) ?? this.#open(provider)).enter(turn)
  }

  /** Rejects whoever waits and gives the shares back. */
  close(): void {
    this.#listening?.disconnect()
    for (const lane of this.#lanes.values()) lane.close()
  }

  #open(provider: string): Lane {
    this.#listen()
    const lane = new Lane(this.#options.clock, tidings => this.#exchange(provider, tidings))
    this.#lanes.set(provider, lane)
    return lane
  }

  #exchange(provider: string, tidings: Tidings): Promise<Answer> {
    const { redis, most } = this.#options
    const { wanted, keeps, epoch, answered, crowded, refused, limitedIn, askedMs } = tidings
    const command = redis as unknown as Record<string, (...args: (string | number)[]) => Promise<Answer>>
    const settings = [most, Math.min(firstLimit, most), leaseMs, pauseMs, longestPauseMs]
    const said = [wanted, keeps, Math.random(), epoch, answered, crowded, refused, limitedIn, askedMs]
    return command[script]!(provider, this.#process, ...settings, ...said)
  }

  /** Cuts and pauses are announced; what is lost, the next exchange tells. */
  #listen(): void {
    if (this.#listening) return
    const heard = (provider: string) => this.#lanes.get(provider)?.heard()
    this.#listening = openSubscriber(this.#options.redis, channel, heard)
  }
}
