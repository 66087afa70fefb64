import { readFileSync } from 'node:fs'
import { GatewayError } from '../base/errors.ts'
import type { Clock } from '../base/time.ts'
import { unavailable } from '../io/outage.ts'
import type { Redis } from '../io/redis.ts'

const script = 'headgate:seats'
/** How long the seat of a process that died stays taken, and how often a living one renews its seats. */
const keptMs = 30_000
export const renewSeatsEveryMs = 10_000

export type Seat = { organisationId: string; id: string }

/** How many sessions an organisation has open, over all processes. */
export class Seats {
  readonly #redis: Redis
  readonly #clock: Clock
  readonly #most: number

  constructor(redis: Redis, clock: Clock, most: number) {
    this.#redis = redis
    this.#clock = clock
    this.#most = most
    redis.defineCommand(script, {
      numberOfKeys: 0,
      lua: readFileSync(new URL('./seats.lua', import.meta.url), 'utf8'),
    })
  }

  /** Throws 429 when the organisation has as many sessions as it may, 503. */
  async take({ organisationId, id }: Seat): Promise<void> {
    const nowMs = this.#clock.now()
    const taken = await this.#run([organisationId, id, nowMs, nowMs + keptMs, this.#most])
    if (taken === 1) return
    throw new GatewayError(
      'rate_limit_exceeded',
      `This organisation has ${this.#most} realtime sessions open, as many as it may have at a time. Close one first.`,
      { headers: { 'retry-after': '10' } },
    )
  }

  /** Throws what Redis throws. */
  async renew(seats: readonly Seat[]): Promise<void> {
    const untilMs = this.#clock.now() + keptMs
    const pipeline = this.#redis.pipeline()
    for (const [organisationId, taken] of Map.groupBy(seats, seat => seat.organisationId)) {
      pipeline.zadd(`realtime:${organisationId}`, ...taken.flatMap(({ id }) => [untilMs, id]))
      pipeline.pexpire(`realtime:${organisationId}`, keptMs)
    }
    await pipeline.exec()
  }

  /** Never throws: a seat that cannot be given back is free after half a minute. */
  async leave({ organisationId, id }: Seat): Promise<void> {
    await this.#redis.zrem(`realtime:${organisationId}`, id).catch(() => {})
  }

  #run(args: (string | number)[]): Promise<unknown> {
    const commands = this.#redis as unknown as Record<string, (...args: (string | number)[]) => Promise<unknown>>
    return commands[script]!(...args).catch(error => {
      throw unavailable(error)
    })
  }
}
