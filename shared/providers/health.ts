import type { Clock } from '../base/time.ts'
import type { Redis } from '../io/redis.ts'
import type { ProviderError } from './contract.ts'

type Figure = { failures: number; benchedUntilMs: number; latencyMs: number | null }

const failuresToOpen = 5
const openForMs = 10_000
const longestBenchMs = 60_000
const refreshMs = 1_000
const redisKey = 'health'

/**
 * Live figures per (provider, model): consecutive failures, until when nobody should try it, first-byte latency. Kept in
 * memory for the router, shared through Redis by all processes once a second.
 */
export class Health {
  readonly #redis: Redis
  readonly #clock: Clock
  readonly #figures = new Map<string, Figure>()
  readonly #changed = new Set<string>()
  #timer: NodeJS.Timeout | null = null

  constructor(redis: Redis, clock: Clock) {
    this.#redis = redis
    this.#clock = clock
  }

  start(): void {
    this.#timer = setInterval(() => void this.sync().catch(() => {}), refreshMs)
    this.#timer.unref()
  }

  close(): void {
    if (this.#timer) clearInterval(this.#timer)
  }

  /** True while the circuit of this pair is open or the provider asked to be left alone. */
  benched(provider: string, model: string): boolean {
    const figure = this.#figures.get(`${provider}|${model}`)
    return figure !== undefined && figure.benchedUntilMs > this.#clock.now()
  }

  /** Smoothed first-byte latency, null while unknown. */
  latencyMs(provider: string, model: string): number | null {
    return this.#figures.get(`${provider}|${model}`)?.latencyMs ?? null
  }

  succeeded(provider: string, model: string, firstByteMs: number): void {
    const figure = this.#figure(provider, model)
    if (figure.failures > 0) this.#changed.add(`${provider}|${model}`)
    figure.failures = 0
    figure.latencyMs = figure.latencyMs === null ? firstByteMs : figure.latencyMs * 0.8 + firstByteMs * 0.2
  }

  failed(provider: string, model: string, error: ProviderError): void {
    const figure = this.#figure(provider, model)
    const now = this.#clock.now()
    figure.failures++
    if (error.retryAfterMs)
      figure.benchedUntilMs = Math.max(figure.benchedUntilMs, now + Math.min(error.retryAfterMs, longestBenchMs))
    if (figure.failures >= failuresToOpen) figure.benchedUntilMs = Math.max(figure.benchedUntilMs, now + openForMs)
    this.#changed.add(`${provider}|${model}`)
  }

  /** Writes what changed here and reads what the other processes know. */
  async sync(): Promise<void> {
    const changed = [...this.#changed]
    this.#changed.clear()
    const fields = changed.map(key => [key, String(this.#figures.get(key)?.benchedUntilMs ?? 0)] as const)
    if (fields.length > 0) await this.#redis.hset(redisKey, Object.fromEntries(fields))
    const now = this.#clock.now()
    for (const [key, until] of Object.entries(await this.#redis.hgetall(redisKey))) {
      if (changed.includes(key)) continue
      const figure = this.#byKey(key)
      figure.benchedUntilMs = Number(until)
      if (figure.benchedUntilMs < now - longestBenchMs) await this.#redis.hdel(redisKey, key)
    }
  }

  #figure(provider: string, model: string): Figure {
    return this.#byKey(`${provider}|${model}`)
  }

  // Bounded by the catalog: one entry per deployment.
  #byKey(key: string): Figure {
    let figure = this.#figures.get(key)
    if (!figure) {
      figure = { failures: 0, benchedUntilMs: 0, latencyMs: null }
      this.#figures.set(key, figure)
    }
    return figure
  }
}
