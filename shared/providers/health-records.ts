import { type Clocks, elapsedMs, type MonotonicClock, type MonotonicMs } from '../base/time.ts'
import { defineScript } from '../io/lua-script.ts'
import type { Redis } from '../io/redis.ts'
import { sharedTag } from '../io/redis-shards.ts'

/** Half-life of the counts, and the expiry of records without new observations. */
export const halfLifeMs = 60_000
const forgetAfterMs = 600_000

/** The shared records, and the last failure of each deployment and API key: those outlive the records. */
export const healthKey = 'health'
export const errorsKey = 'health:errors'

/** Redis keys of the half-open probes under way. */
export const probePrefix = 'health:trial:'
/** The tag of all keys of health figures in a Redis Cluster. */
export const healthTag = 'health'

/** The shared record of one deployment or API key; times are Redis' (`HealthRecords.redisNowMs`). */
export type HealthRecord = {
  atMs: number
  openUntilMs: number
  pausedUntilMs: number
  successes: number
  failures: number
  firstByteMs: number
  tokensPerSecond: number
  /** While another process runs the half-open probe. */
  probedUntilMs: number
}

/** What this process observed since the last exchange. */
type Observations = {
  successes: number
  failures: number
  /** Failures since the last success. */
  consecutiveFailures: number
  /** First bytes received. */
  firstBytes: number
  /** -1 = none. */
  firstByteMs: number
  /** -1 = none. */
  tokensPerSecond: number
  /** The cooldown of a failure. */
  cooldownMs: number
  /** The pause that the provider requested. */
  pauseMs: number
  /** The last failure, as JSON; '' = none. */
  error: string
}

export const emptyRecord: Omit<HealthRecord, 'atMs'> = {
  openUntilMs: 0,
  pausedUntilMs: 0,
  successes: 0,
  failures: 0,
  firstByteMs: -1,
  tokensPerSecond: -1,
  probedUntilMs: 0,
}

const noObservations: Observations = {
  successes: 0,
  failures: 0,
  consecutiveFailures: 0,
  firstBytes: 0,
  firstByteMs: -1,
  tokensPerSecond: -1,
  cooldownMs: 0,
  pauseMs: 0,
  error: '',
}

export function mean(soFar: number, next: number, count: number): number {
  return soFar < 0 ? next : soFar + (next - soFar) / count
}

/** Whether Redis has dropped a record, after a time without observations, when no pause is in force. */
export function isForgotten({ atMs, pausedUntilMs }: HealthRecord, nowMs: number): boolean {
  return nowMs - atMs > forgetAfterMs && pausedUntilMs <= nowMs
}

const syncIntervalMs = 500
/** How far the time of Redis, as carried on from the last exchange, may be off. */
const maxErrorMs = 5_000
/** Consecutive failures that open a circuit. With fewer, a target that failover passed over would never be retried. */
export const failuresToOpen = 3

const exchange = defineScript({
  name: 'health',
  lua: [new URL('./health.lua', import.meta.url)],
  fixedKeys: { healthKey, errorsKey, changedKey: 'health:changed' },
  keyPrefixes: { trialPrefix: probePrefix },
  args: {
    cursor: 'text',
    halfLifeMs: 'number',
    expireAfterMs: 'number',
    failuresToOpen: 'number',
    observations: {
      id: 'text',
      successes: 'number',
      failures: 'number',
      consecutiveFailures: 'number',
      firstBytes: 'number',
      firstByteMs: 'number',
      tokensPerSecond: 'number',
      cooldownMs: 'number',
      pauseMs: 'number',
      error: 'text',
    },
  },
})

/**
 * The health records of deployments and API keys, as all processes share them: health.lua merges this process's
 * observations into the records in Redis, where the counts decay, and returns the records that changed.
 */
export class HealthRecords {
  readonly #redis: Redis
  readonly #monotonic: MonotonicClock
  /** The time of Redis as last read, and when. */
  #redisTime: { nowMs: number; readAtMs: MonotonicMs }
  readonly #records = new Map<string, HealthRecord>()
  #observations = new Map<string, Observations>()
  #cursor = '0'
  #timer: NodeJS.Timeout | null = null
  #syncing: Promise<void> | null = null
  #pending = false
  #hasKeys = false
  #revision = 0

  constructor(redis: Redis, { clock, monotonic }: Clocks) {
    this.#redis = redis
    this.#monotonic = monotonic
    this.#redisTime = { nowMs: clock.now(), readAtMs: monotonic.now() }
  }

  /** Loads the shared records and starts the exchange timer. */
  async start(): Promise<void> {
    this.#timer = setInterval(() => void this.sync(), syncIntervalMs)
    this.#timer.unref()
    await this.sync()
  }

  close(): void {
    if (this.#timer) clearInterval(this.#timer)
  }

  /** The time of Redis, by which all times of the records are. */
  redisNowMs(): number {
    const { nowMs, readAtMs } = this.#redisTime
    return nowMs + elapsedMs(readAtMs, this.#monotonic.now())
  }

  get(id: string): HealthRecord | undefined {
    return this.#records.get(id)
  }

  /** Whether any record is that of an API key. */
  get hasKeys(): boolean {
    return this.#hasKeys
  }

  /** Changes with the records. */
  get revision(): number {
    return this.#revision
  }

  /** The observations since the last exchange, for the caller to add to. Bounded by the catalog and the configured API keys. */
  observe(id: string): Observations {
    let observed = this.#observations.get(id)
    if (!observed) {
      observed = { ...noObservations }
      this.#observations.set(id, observed)
    }
    return observed
  }

  /** Pauses a deployment or API key. Applies in this process immediately, for the next attempt of the same request. */
  pause(id: string, pauseMs: number): void {
    const observed = this.observe(id)
    observed.pauseMs = Math.max(observed.pauseMs, pauseMs)
    const now = this.redisNowMs()
    const record = this.#records.get(id) ?? { ...emptyRecord, atMs: now }
    this.#set(id, { ...record, pausedUntilMs: Math.max(record.pausedUntilMs, now + pauseMs) })
  }

  /**
   * Publishes this process's observations and reads those of the others. While Redis is unavailable, the records stay
   * unchanged. Never rejects.
   */
  sync(): Promise<void> {
    this.#pending = true
    this.#syncing ??= this.#syncAll()
    return this.#syncing
  }

  async #syncAll(): Promise<void> {
    try {
      while (this.#pending) {
        this.#pending = false
        await this.#syncOnce()
      }
    } finally {
      this.#syncing = null
    }
  }

  async #syncOnce(): Promise<void> {
    const observations = Array.from(this.#observations, ([id, observed]) => ({ id, ...observed }))
    this.#observations = new Map()
    const sentAtMs = this.redisNowMs()
    const settings = { cursor: this.#cursor, halfLifeMs, expireAfterMs: forgetAfterMs, failuresToOpen }
    const reply = exchange(this.#redis, { ...settings, observations }, sharedTag(this.#redis, healthTag)).catch(
      () => [],
    )
    const [now = '0', ...changed] = (await reply) as string[]
    if (now === '0') return
    // Compared with the time of sending: a process that was held up reads an answer long after it was given.
    if (Number(now) < sentAtMs - maxErrorMs) {
      // Redis' clock was set back: what is known here, such as the end of a pause, is of another time.
      this.#records.clear()
      this.#revision++
      this.#cursor = '0'
      this.#pending = true
    } else this.#cursor = now
    this.#redisTime = { nowMs: Number(now), readAtMs: this.#monotonic.now() }
    for (let i = 0; i < changed.length; i += 2) this.#applyShared(changed[i]!, changed[i + 1]!)
  }

  #applyShared(id: string, text: string): void {
    const shared = JSON.parse(text) as { [field: string]: number }
    const { good: successes = 0, bad: failures = 0, at = 0, open_until = 0, rest_until = 0 } = shared
    this.#set(id, {
      atMs: at,
      successes,
      failures,
      openUntilMs: open_until,
      // A pause requested from this process may not be in the shared record yet.
      pausedUntilMs: Math.max(rest_until, this.#records.get(id)?.pausedUntilMs ?? 0),
      firstByteMs: shared.first_byte_ms ?? -1,
      tokensPerSecond: shared.tokens_per_second ?? -1,
      probedUntilMs: 0,
    })
  }

  #set(id: string, record: HealthRecord): void {
    this.#hasKeys ||= id.split('|').length > 2
    this.#records.set(id, record)
    this.#revision++
  }
}
