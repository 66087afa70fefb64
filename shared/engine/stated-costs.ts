import { type Clock, dayMs } from '../base/time.ts'
import type { Logger } from '../io/log.ts'
import { defineScript } from '../io/lua-script.ts'
import type { Redis } from '../io/redis.ts'
import type { Metrics } from '../metrics/metrics.ts'

const costsKey = 'stated-costs'
const flushIntervalMs = 30_000
/** Older calls count half as much after this time: a price that was corrected is soon forgotten. */
const halfLifeMs = dayMs
const ttlMs = 30 * dayMs
/** With fewer calls, or within this distance, a difference says nothing about the row: routes and roundings differ. */
const minCalls = 5
const maxDrift = 0.05

const addCosts = defineScript({
  name: 'add-stated-costs',
  // A value is the number of calls, what they cost by the catalog and by the provider in nano-dollars, and when they were added.
  lua: `
    for _, found in ipairs(found_costs) do
      local known = redis.call('HGET', costs_key, found.id)
      local calls, listed, stated, at = 0, 0, 0, now_ms
      if known then calls, listed, stated, at = known:match('^(%S+) (%S+) (%S+) (%S+)') end
      local kept = 0.5 ^ (math.max(0, now_ms - at) / half_life_ms)
      redis.call('HSET', costs_key, found.id, string.format('%.3f %.0f %.0f %.0f', calls * kept + found.calls,
        listed * kept + found.listed, stated * kept + found.stated, now_ms))
    end
    redis.call('PEXPIRE', costs_key, ttl_ms)`,
  fixedKeys: { costsKey },
  args: {
    foundCosts: { id: 'text', calls: 'number', listed: 'number', stated: 'number' },
    nowMs: 'number',
    halfLifeMs: 'number',
    ttlMs: 'number',
  },
})

/** What the calls of a model at a provider cost by the catalog and by the provider's own statement, in nano-dollars. */
export type StatedCost = { provider: string; model: string; calls: number; listedNano: number; statedNano: number }

type NamedTarget = { provider: { name: string }; model: { id: string } }
type Sum = { calls: number; listed: number; stated: number }

/**
 * Compares the prices of the catalog with what providers state that calls cost. Charges follow the statements; the comparison
 * tells operators which rows are wrong, by which routing and reservations are computed. A process adds its own every half
 * minute to sums in Redis, and logs each wrong row once. Bounded by the catalog.
 */
export class StatedCosts {
  readonly #redis: Redis
  readonly #clock: Clock
  readonly #log: Logger
  readonly #metrics: Metrics | undefined
  readonly #logged = new Set<string>()
  #sums = new Map<string, Sum>()
  #timer: NodeJS.Timeout | null = null

  constructor({
    redis,
    clock,
    log,
    metrics,
  }: { redis: Redis; clock: Clock; log: Logger; metrics?: Metrics | undefined }) {
    this.#redis = redis
    this.#clock = clock
    this.#log = log
    this.#metrics = metrics
  }

  start(): this {
    this.#timer = setInterval(() => void this.flush(), flushIntervalMs)
    this.#timer.unref()
    return this
  }

  async close(): Promise<void> {
    if (this.#timer) clearInterval(this.#timer)
    await this.flush()
  }

  /** Records a call whose provider stated its cost. */
  record({ provider, model }: NamedTarget, listedNano: number, statedNano: number): void {
    const id = `${provider.name}|${model.id}`
    const sum = this.#sums.get(id) ?? { calls: 0, listed: 0, stated: 0 }
    this.#sums.set(id, { calls: sum.calls + 1, listed: sum.listed + listedNano, stated: sum.stated + statedNano })
    this.#metrics?.recordStatedCost({ provider, model }, listedNano, statedNano)
  }

  /** Stores what the process has recorded. Never rejects: a failed write loses figures of half a minute. */
  async flush(): Promise<void> {
    if (this.#sums.size === 0) return
    const foundCosts = Array.from(this.#sums, ([id, sum]) => ({ id, ...sum }))
    this.#sums = new Map()
    try {
      await addCosts(this.#redis, { foundCosts, nowMs: this.#clock.now(), halfLifeMs, ttlMs })
      for (const drift of (await listStatedCosts(this.#redis)).filter(isDrift)) this.#logOnce(drift)
    } catch (error) {
      this.#log.warn({ err: error }, 'the costs that providers stated are not stored')
    }
  }

  #logOnce({ provider, model, listedNano, statedNano }: StatedCost): void {
    const id = `${provider}|${model}`
    if (this.#logged.has(id)) return
    this.#logged.add(id)
    const fields = { provider, model, listedNano, statedNano }
    this.#log.warn(fields, 'the provider states another cost than the prices of the catalog: correct the row')
  }
}

/** What all processes have recorded lately. Throws what Redis throws. */
export async function listStatedCosts(redis: Redis): Promise<StatedCost[]> {
  const values = await redis.hgetall(costsKey)
  return Object.entries(values).map(([id, value]) => {
    const [provider = '', model = ''] = id.split('|')
    const [calls = 0, listedNano = 0, statedNano = 0] = value.split(' ').map(Number)
    return { provider, model, calls, listedNano, statedNano }
  })
}

/** Whether the prices of a row are wrong by what its provider states. */
export function isDrift({ calls, listedNano, statedNano }: StatedCost): boolean {
  return calls >= minCalls && Math.abs(statedNano - listedNano) > maxDrift * Math.max(listedNano, statedNano)
}
