import { randomUUID } from 'node:crypto'
import type { MonotonicClock } from '../base/time.ts'
import { defineScript } from '../io/lua-script.ts'
import { channelName, openSubscriber, type Redis } from '../io/redis.ts'
import { initialPauseMs, maxPauseMs } from './limiter-share.ts'
import { type Permit, type PermitRequest, ProviderLimiter } from './provider-limiter.ts'
import { defaultLeaseMs, type ShareGrant } from './share-lease.ts'
import type { UsageReport } from './usage-report.ts'

export type { Permit, PermitRequest } from './provider-limiter.ts'

type Options = {
  redis: Redis
  monotonic: MonotonicClock
  /** Maximum calls in flight at one provider, over all processes. */
  max: number
  /** Lifetime of a process's share without a renewal. */
  leaseMs?: number
}

const channel = 'lanes'
/** The limit of a provider without recorded state. */
const initialLimit = 16

const exchange = defineScript({
  name: 'limiter',
  lua: [new URL('./concurrency-limiter.lua', import.meta.url)],
  keys: ['stateKey'],
  args: {
    channel: 'text',
    provider: 'text',
    processId: 'text',
    maxLimit: 'number',
    initialLimit: 'number',
    leaseMs: 'number',
    initialPauseMs: 'number',
    maxPauseMs: 'number',
    jitter: 'number',
    demand: 'number',
    committed: 'number',
    epoch: 'number',
    answered: 'number',
    saturated: 'number',
    refused: 'number',
    limitedEpoch: 'number',
    retryAfterMs: 'number',
  },
})

/**
 * The distributed concurrency limiter of delayed work: bounds the calls in flight at each provider over all workers. Each limit
 * follows AIMD: it grows with answers and is halved when too many calls are refused (see docs/decisions/bulk-concurrency.md).
 * A process without delayed work has no timer and no Redis traffic.
 */
export class ConcurrencyLimiter {
  readonly #options: Required<Options>
  readonly #processId = randomUUID()
  // Bounded by the catalog.
  readonly #limiters = new Map<string, ProviderLimiter>()
  #subscriber: Redis | null = null

  constructor(options: Options) {
    this.#options = { leaseMs: defaultLeaseMs, ...options }
  }

  /**
   * Acquires a permit for one call to a provider; waits for at most a minute. Rejects with a GatewayError 503 when no permit was
   * free in that time, when the provider is paused for longer, or when the queue is full; with the signal's reason once `signal`
   * is aborted.
   */
  acquire(provider: string, request: PermitRequest): Promise<Permit> {
    return (this.#limiters.get(provider) ?? this.#createLimiter(provider)).acquire(request)
  }

  /** Rejects all waiters and returns the shares, except what calls in flight occupy. */
  close(): void {
    this.#subscriber?.disconnect()
    for (const limiter of this.#limiters.values()) limiter.close()
  }

  #createLimiter(provider: string): ProviderLimiter {
    this.#subscribe()
    const { monotonic, leaseMs } = this.#options
    const limiter = new ProviderLimiter({
      monotonic,
      leaseMs,
      exchange: report => this.#exchange(provider, report),
    })
    this.#limiters.set(provider, limiter)
    return limiter
  }

  #exchange(provider: string, report: UsageReport): Promise<ShareGrant> {
    const { redis, max, leaseMs } = this.#options
    const settings = { maxLimit: max, initialLimit: Math.min(initialLimit, max), leaseMs, initialPauseMs, maxPauseMs }
    const names = { stateKey: `lane:${provider}`, channel: channelName(redis, channel) }
    const owner = { ...names, provider, processId: this.#processId }
    const grant = exchange(redis, { ...owner, ...settings, jitter: Math.random(), ...report })
    return grant as Promise<ShareGrant>
  }

  /** Decreases and pauses are published. A lost message delays them only until the next exchange. */
  #subscribe(): void {
    if (this.#subscriber) return
    const refresh = (provider: string) => this.#limiters.get(provider)?.refresh()
    this.#subscriber = openSubscriber(this.#options.redis, channel, refresh)
  }
}
