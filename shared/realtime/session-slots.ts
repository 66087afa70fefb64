import type { Clock } from '../base/time.ts'
import type { Redis } from '../io/redis.ts'
import { shardsOf } from '../io/redis-shards.ts'
import { acquireSlot } from '../io/slots.ts'

/** Expiry of the slots of a crashed process, and renewal interval of a live one. */
const keptMs = 30_000
export const renewSlotsEveryMs = 10_000

export type SessionSlot = { organisationId: string; id: string }

/** Limits the open sessions of one kind of an organisation, over all processes. */
export class SessionSlots {
  readonly max: number
  readonly #redis: Redis
  readonly #clock: Clock
  readonly #kind: 'realtime' | 'responses'

  constructor(redis: Redis, clock: Clock, kind: 'realtime' | 'responses', max: number) {
    this.max = max
    this.#redis = redis
    this.#clock = clock
    this.#kind = kind
  }

  /** Whether the organisation had a free slot, which is now taken. Throws 503. */
  async acquire({ organisationId, id }: SessionSlot): Promise<boolean> {
    const nowMs = this.#clock.now()
    const slotsKey = this.#keyOf(organisationId)
    return acquireSlot(this.#redis, { slotsKey, id, nowMs, expiresAtMs: nowMs + keptMs, maxSlots: this.max })
  }

  /** Throws errors of Redis. */
  async renew(slots: readonly SessionSlot[]): Promise<void> {
    const untilMs = this.#clock.now() + keptMs
    for (const ofShard of shardsOf(this.#redis)
      .group(slots, slot => slot.organisationId)
      .values()) {
      const pipeline = this.#redis.pipeline()
      for (const [organisationId, ownSlots] of Map.groupBy(ofShard, slot => slot.organisationId)) {
        pipeline.zadd(this.#keyOf(organisationId), ...ownSlots.flatMap(({ id }) => [untilMs, id]))
        pipeline.pexpire(this.#keyOf(organisationId), keptMs)
      }
      await pipeline.exec()
    }
  }

  /** Never throws: a slot that cannot be released expires after 30 seconds. */
  async release({ organisationId, id }: SessionSlot): Promise<void> {
    await this.#redis.zrem(this.#keyOf(organisationId), id).catch(() => {})
  }

  #keyOf(organisationId: string): string {
    return `${shardsOf(this.#redis).of(organisationId).tag}${this.#kind}:${organisationId}`
  }
}
