import { GatewayError } from '../base/errors.ts'
import type { Clock } from '../base/time.ts'
import { defineScript } from '../io/lua-script.ts'
import { storeUnavailable } from '../io/outage.ts'
import type { Redis } from '../io/redis.ts'

/** Expiry of the slots of a crashed process, and renewal interval of a live one. */
const keptMs = 30_000
export const renewSlotsEveryMs = 10_000

export type SessionSlot = { organisationId: string; id: string }

const slotsKey = (organisationId: string) => `realtime:${organisationId}`
const acquireSlot = defineScript({
  name: 'acquire-slot',
  lua: [new URL('./session-slots.lua', import.meta.url)],
  keys: ['slotsKey'],
  args: { id: 'text', nowMs: 'number', expiresAtMs: 'number', maxSlots: 'number' },
})

/** Limits the open sessions of an organisation, over all processes. */
export class SessionSlots {
  readonly #redis: Redis
  readonly #clock: Clock
  readonly #max: number

  constructor(redis: Redis, clock: Clock, max: number) {
    this.#redis = redis
    this.#clock = clock
    this.#max = max
  }

  /** Throws 429 when the organisation has its maximum of sessions, 503. */
  async acquire({ organisationId, id }: SessionSlot): Promise<void> {
    const nowMs = this.#clock.now()
    const slot = { slotsKey: slotsKey(organisationId), id, nowMs, expiresAtMs: nowMs + keptMs, maxSlots: this.#max }
    const acquired = await acquireSlot(this.#redis, slot).catch(error => {
      throw storeUnavailable(error)
    })
    if (acquired === 1) return
    throw new GatewayError(
      'rate_limit_exceeded',
      `This organisation has ${this.#max} realtime sessions open, as many as it may have at a time. Close one first.`,
      { headers: { 'retry-after': '10' } },
    )
  }

  /** Throws errors of Redis. */
  async renew(slots: readonly SessionSlot[]): Promise<void> {
    const untilMs = this.#clock.now() + keptMs
    const pipeline = this.#redis.pipeline()
    for (const [organisationId, ownSlots] of Map.groupBy(slots, slot => slot.organisationId)) {
      pipeline.zadd(slotsKey(organisationId), ...ownSlots.flatMap(({ id }) => [untilMs, id]))
      pipeline.pexpire(slotsKey(organisationId), keptMs)
    }
    await pipeline.exec()
  }

  /** Never throws: a slot that cannot be released expires after 30 seconds. */
  async release({ organisationId, id }: SessionSlot): Promise<void> {
    await this.#redis.zrem(slotsKey(organisationId), id).catch(() => {})
  }
}
