import type { Clocks } from '../base/time.ts'
import { isOwnFault } from '../io/http.ts'
import { boundTtl, type Redis } from '../io/redis.ts'
import { sharedTag } from '../io/redis-shards.ts'
import type { Target } from './contract.ts'
import {
  emptyRecord,
  failuresToOpen,
  type HealthRecord,
  HealthRecords,
  halfLifeMs,
  healthTag,
  isForgotten,
  mean,
  probePrefix,
} from './health-records.ts'
import { OwnKeyHealth } from './own-key-health.ts'
import type { ProviderError } from './provider-error.ts'
import { redactCredentials } from './redact-credentials.ts'

/** The current health of one deployment (a model at a provider). */
export type Figures = {
  circuit: Circuit
  /** How long it must not be called: the open circuit's cooldown, or a pause the provider requested. 0 = callable. */
  cooldownMs: number
  /** Share of calls that failed in the last minutes; 0 below the minimum number of calls. */
  failureRate: number
  /** Time to first byte of streamed responses; null while unknown. */
  firstByteMs: number | null
  tokensPerSecond: number | null
  /** Set when the last call of this process was refused for the gateway's own account: its API key, or its credit. */
  accountFault?: true
  /** Set while every one of an organisation's own keys is refused: what to tell it. */
  ownKeyRefusal?: string
}

/**
 * The API key of a call: where it is configured, and whether no other is usable. `probes`: whether the call is the probe of a
 * half-open circuit.
 */
type CalledKey = { id: string; origin?: string; alone: boolean; probes?: boolean }

/** Figures of a deployment without recent calls. */
export const unknownFigures: Figures = {
  circuit: 'closed',
  cooldownMs: 0,
  failureRate: 0,
  firstByteMs: null,
  tokensPerSecond: null,
}

/** The cooldown of an open circuit equals the caller's cost of the failure, within these bounds. */
const cooldownLimitsMs = { min: 1_000, max: 60_000 }
/** Upper bound for pauses that providers request. */
const maxPauseMs = 3_600_000
const minCalls = 5

/**
 * Health of every deployment and API key: success rate, latency, throughput, circuit breaker, pauses that providers
 * requested. The figures are stored in Redis, decay there, and are shared by all processes: failures at once, the rest
 * twice a second. Three consecutive failures open a circuit; after the cooldown it is half-open and admits one probe
 * across all processes.
 */
export class Health {
  readonly #records: HealthRecords
  readonly #circuits: CircuitBreaker
  readonly #ownKeys: OwnKeyHealth
  readonly #ids = new WeakMap<object, string>()
  /** The targets whose last call by this process was refused for our account; bounded by the catalog. */
  readonly #accountFaults = new Set<string>()

  constructor(redis: Redis, clocks: Clocks) {
    this.#records = new HealthRecords(redis, clocks)
    this.#circuits = new CircuitBreaker(redis, this.#records)
    this.#ownKeys = new OwnKeyHealth(clocks.monotonic)
  }

  /** Loads the shared records and starts their exchange, twice a second. */
  start(): Promise<void> {
    return this.#records.start()
  }

  close(): void {
    this.#records.close()
  }

  /** See `HealthRecords.sync`. */
  sync(): Promise<void> {
    return this.#records.sync()
  }

  figures(target: Target): Figures {
    if (target.own) return this.#ownKeys.figures(target)
    const id = this.#idOf(target)
    const record = this.#records.get(id)
    if (!record) return unknownFigures
    const now = this.#records.redisNowMs()
    if (isForgotten(record, now)) return unknownFigures
    const circuit = circuitOf(record, now)
    const { successes, failures, firstByteMs, tokensPerSecond } = record
    const calls = failures === 0 ? 0 : (successes + failures) * 0.5 ** ((now - record.atMs) / halfLifeMs)
    // With its failure history counted, a half-open target would never be probed while other targets serve.
    const isIgnored = calls < minCalls || failures < failuresToOpen || circuit === 'half_open'
    const figures: Figures = {
      circuit,
      cooldownMs: Math.max(0, record.openUntilMs - now, record.pausedUntilMs - now, record.probedUntilMs - now),
      failureRate: isIgnored ? 0 : failures / (successes + failures),
      firstByteMs: firstByteMs < 0 ? null : firstByteMs,
      tokensPerSecond: tokensPerSecond < 0 ? null : tokensPerSecond,
    }
    if (this.#accountFaults.size > 0 && this.#accountFaults.has(id)) figures.accountFault = true
    return figures
  }

  /** Decayed call counts of a target over the last minutes, for display. */
  callCounts(target: Target): { successes: number; failures: number } {
    const { successes, failures, atMs } = this.#records.get(this.#idOf(target)) ?? { ...emptyRecord, atMs: 0 }
    const decay = 0.5 ** ((this.#records.redisNowMs() - atMs) / halfLifeMs)
    return { successes: successes * decay, failures: failures * decay }
  }

  /** Changes when more becomes known of any target or key: until then what is unknown stays so. */
  get revision(): number {
    return this.#records.revision
  }

  /** Whether anything is known of API keys: usually nothing is, and every routing decision asks for each target. */
  get hasKeys(): boolean {
    return this.#records.hasKeys
  }

  /** The remaining cooldown of an API key for a target. */
  keyCooldownMs(target: Target, keyId: string): number {
    if (target.own) return this.#ownKeys.cooldownMs(target, keyId)
    if (!this.hasKeys) return 0
    const now = this.#records.redisNowMs()
    const until = (id: string) => this.#records.get(id)?.pausedUntilMs ?? 0
    return Math.max(0, until(keyOfModel(target, keyId)) - now, until(keyOfProvider(target, keyId)) - now)
  }

  /** True when a target may be called now. A half-open circuit admits one probe across all processes. */
  tryAcquire(target: Target): Promise<boolean> {
    return this.#circuits.tryAcquire(this.#idOf(target))
  }

  /** Releases the half-open probe of a call that ended without evidence about its target. */
  releaseProbe(target: Target): void {
    if (target.own) return
    this.#circuits.releaseProbe(this.#idOf(target))
  }

  /** Forgets what is known of an organisation's own key, whose secret was replaced. */
  forgetOwnKey(keyId: string): void {
    this.#ownKeys.forget(keyId)
  }

  /** Records the first byte of a response, `firstByteMs` after the call with a key. */
  recordFirstByte(target: Target, firstByteMs: number, keyId = ''): void {
    if (target.own) {
      this.#ownKeys.recordSuccess(target, keyId, firstByteMs)
      return
    }
    const id = this.#idOf(target)
    const observed = this.#records.observe(id)
    observed.firstBytes++
    observed.firstByteMs = mean(observed.firstByteMs, firstByteMs, observed.firstBytes)
    // Requests that wait for the circuit to close must see this immediately.
    if (this.#circuits.isHalfOpen(id)) void this.sync()
  }

  /** Records a successful call with a key, at `tokensPerSecond` (null = unknown). */
  recordSuccess(target: Target, tokensPerSecond: number | null, keyId = ''): void {
    if (target.own) {
      this.#ownKeys.recordSuccess(target, keyId)
      return
    }
    const id = this.#idOf(target)
    const observed = this.#records.observe(id)
    this.#accountFaults.delete(id)
    observed.successes++
    observed.consecutiveFailures = 0
    if (tokensPerSecond !== null)
      observed.tokensPerSecond = mean(observed.tokensPerSecond, tokensPerSecond, observed.successes)
    if (this.#circuits.isHalfOpen(id)) void this.sync()
  }

  /**
   * Records a call that failed by the provider's fault after the caller waited `waitedMs`. A fault of the API key alone
   * (its rate limit, its credentials, a model that its account lacks) starts a cooldown of that key if there are others; every
   * other fault counts against the target. One of this machine says nothing about the target, which other processes may reach.
   */
  recordFailure(target: Target, error: ProviderError, waitedMs: number, key: CalledKey): void {
    if (isOwnFault(error.cause)) {
      if (key.probes) this.releaseProbe(target)
      return
    }
    if (target.own) {
      this.#ownKeys.recordFailure(target, error, waitedMs, key.id)
      return
    }
    const id = this.#idOf(target)
    const { reason, status, message, retryAfterMs } = error
    const pauseMs = retryAfterMs === null ? 0 : Math.min(retryAfterMs, maxPauseMs)
    const isRefused = reason === 'auth' || reason === 'quota'
    if (isRefused) this.#accountFaults.add(id)
    else this.#accountFaults.delete(id)
    // The operator has to know which key it is: nothing else can be done about it.
    const shown = redactCredentials(message) + (isRefused && key.origin ? ` (${key.origin})` : '')
    const lastError = JSON.stringify({ reason, status: status ?? 0, message: shown, key: key.id })
    const isRateLimited = reason === 'rate_limited' && (pauseMs > 0 || !key.alone)
    // Another account may have the model.
    const isWithoutModel = reason === 'model_unavailable' && !error.unsent
    if (isRateLimited || ((isRefused || isWithoutModel) && !key.alone)) {
      const keyRecordId = isRefused ? keyOfProvider(target, key.id) : keyOfModel(target, key.id)
      this.#records.observe(keyRecordId).error = lastError
      this.#records.pause(
        keyRecordId,
        isRateLimited ? pauseMs || cooldownLimitsMs.min : Math.max(pauseMs, cooldownLimitsMs.max),
      )
      if (key.probes) this.#circuits.releaseProbe(id)
    } else {
      const observed = this.#records.observe(id)
      observed.failures++
      observed.consecutiveFailures++
      observed.error = lastError
      if (pauseMs > 0) this.#records.pause(id, pauseMs)
      observed.cooldownMs = Math.min(Math.max(waitedMs, cooldownLimitsMs.min), cooldownLimitsMs.max)
    }
    void this.sync()
  }

  #idOf({ deployment, provider, model }: Target): string {
    let id = this.#ids.get(deployment)
    if (id === undefined) {
      id = `${provider.name}|${model.id}`
      this.#ids.set(deployment, id)
    }
    return id
  }
}

const keyOfModel = ({ provider, model }: Target, keyId: string) => `${provider.name}|${model.id}|${keyId}`
const keyOfProvider = ({ provider }: Target, keyId: string) => `${provider.name}|*|${keyId}`

type Circuit = 'closed' | 'open' | 'half_open'

const probeLeaseMs = 10_000
/** Delay before a process retries to acquire the single probe of a half-open circuit. */
const probeRetryMs = 250

function circuitOf({ openUntilMs }: HealthRecord, nowMs: number): Circuit {
  if (openUntilMs === 0) return 'closed'
  return openUntilMs > nowMs ? 'open' : 'half_open'
}

/**
 * The circuit breakers of the deployments: health.lua opens and closes them, by the observations of all processes. A
 * half-open circuit admits one probe across all processes, by a lease in Redis.
 */
class CircuitBreaker {
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
