import { boundTtl, type Redis } from '../io/redis.ts'
import { sharedTag } from '../io/redis-shards.ts'
import { type HealthRecord, healthTag, isForgotten, probePrefix } from './health-record.ts'
import type { HealthRecords } from './health-records.ts'

export type Circuit = 'closed' | 'open' | 'half_open'

const probeLeaseMs = 10_000
/** Delay before a process retries to acquire the single probe of a half-open circuit. */
const probeRetryMs = 250

export function circuitOf({ openUntilMs }: HealthRecord, nowMs: number): Circuit {
  if (openUntilMs === 0) return 'closed'
  return openUntilMs > nowMs ? 'open' : 'half_open'
}

/**
 * The circuit breakers of the deployments: health.lua opens and closes them, by the observations of all processes. A
 * half-open circuit admits one probe across all processes, by a lease in Redis.
 */
export class CircuitBreaker {
  readonly #redis: Redis
  readonly #records: HealthRecords

  constructor(redis: Redis, records: HealthRecords) {
    this.#redis = redis
    this.#records = records
  }

  isHalfOpen(id: string): boolean {
    const record = this.#records.get(id)
    const now = this.#records.redisNowMs()
    return record !== undefined && !isForgotten(record, now) && circuitOf(record, now) === 'half_open'
  }

  /** True when a deployment may be called now: its circuit is closed, or this call acquired the probe. */
  async tryAcquire(id: string): Promise<boolean> {
    const record = this.#records.get(id)
    if (!record || record.openUntilMs === 0) return true
    const now = this.#records.redisNowMs()
    if (Math.max(record.openUntilMs, record.probedUntilMs) > now) return false
    const acquired = await this.#redis.set(this.#probeKey(id), '1', 'PX', probeLeaseMs, 'NX').catch(() => null)
    if (acquired === null) {
      record.probedUntilMs = now + probeRetryMs
      void boundTtl(this.#redis, this.#probeKey(id), probeLeaseMs).catch(() => {})
    }
    return acquired !== null
  }

  /** Releases the probe of a call that ended without evidence about its deployment. */
  releaseProbe(id: string): void {
    if (this.isHalfOpen(id)) void this.#redis.del(this.#probeKey(id)).catch(() => {})
  }

  #probeKey(id: string): string {
    return sharedTag(this.#redis, healthTag) + probePrefix + id
  }
}
