import { type Clock, systemClock } from '../../../shared/base/time.ts'
import { openRequestRedis, type Redis, waitUntilReady } from '../../../shared/io/redis.ts'
import type { Target } from '../../../shared/providers/contract.ts'
import { Health } from '../../../shared/providers/health.ts'
import { type FailureReason, ProviderError } from '../../../shared/providers/provider-error.ts'
import { monotonicOf } from '../clocks/monotonic.ts'
import { catalog } from './routing.ts'

/** Live figures as several processes have them: each on its own connection to one Redis. */
export type Fleet = {
  redis: Redis
  processes: Health[]
  /** Another process; `aheadMs` is its clock's offset from this machine's, or gives it at each reading. */
  join(aheadMs?: number | (() => number)): Promise<Health>
  /** Every process exchanges its figures. */
  exchange(): Promise<void>
  /** Overwrites fields of a shared record, its moments given in ms from now. Processes see it with their next exchange. */
  edit(id: string, fields: Partial<Shared>, moments?: { [field: string]: number }): Promise<void>
  record(id: string): Promise<Shared>
  close(): void
}

/** A record as the script keeps it. */
export type Shared = {
  at: number
  good: number
  bad: number
  run: number
  open_until: number
  rest_until: number
  first_byte_ms: number
  tokens_per_second: number
}

export async function openFleet(redisUrl: string, size: number): Promise<Fleet> {
  const connections: Redis[] = []
  const connect = async () => {
    const redis = openRequestRedis({ redisUrl, redisTlsVerify: true })
    redis.on('error', () => {}) // Some tests stop the server.
    connections.push(redis)
    await waitUntilReady(redis, 5_000)
    return redis
  }
  const redis = await connect()
  const processes: Health[] = []
  const record = async (id: string) => JSON.parse((await redis.hget('health', id)) ?? '{}') as Shared
  const fleet: Fleet = {
    redis,
    processes,
    async join(aheadMs = 0) {
      const offsetMs = typeof aheadMs === 'number' ? () => aheadMs : aheadMs
      const clock: Clock = { now: () => systemClock.now() + offsetMs() }
      const health = new Health(await connect(), { clock, monotonic: monotonicOf(clock) })
      processes.push(health)
      return health
    },
    async exchange() {
      // Twice: what the first gives, the second takes.
      for (const _ of [1, 2]) await Promise.all(processes.map(health => health.sync()))
    },
    async edit(id, fields, moments = {}) {
      const now = await nowOf(redis)
      const at = Object.fromEntries(Object.entries(moments).map(([field, fromNowMs]) => [field, now + fromNowMs]))
      const known = { ...unwritten(now), ...(await record(id)) }
      await redis.hset('health', id, JSON.stringify({ ...known, ...fields, ...at }))
      await redis.zadd('health:changed', at.at ?? now, id)
      // What blocks all attempts ends with the cooldown.
      if ((moments.open_until ?? 1) <= 0) await redis.del(`health:trial:${id}`)
    },
    record,
    close() {
      for (const connection of connections) connection.disconnect()
    },
  }
  for (let i = 0; i < size; i++) await fleet.join()
  return fleet
}

const unwritten = (at: number): Shared => ({
  at,
  good: 0,
  bad: 0,
  run: 0,
  open_until: 0,
  rest_until: 0,
  first_byte_ms: -1,
  tokens_per_second: -1,
})

async function nowOf(redis: Redis): Promise<number> {
  const [seconds, micros] = await redis.time()
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000)
}

/** A model of the shipped catalog at one of its providers. */
export function targetOf(name: string): Target {
  const [slug, provider] = name.split('@')
  const model = catalog.find(slug!)!
  const found = catalog.targets(model).find(one => one.provider.name === provider)!
  return { model, ...found }
}

export function failure(reason: FailureReason, retryAfterMs?: number): ProviderError {
  return new ProviderError(reason, reason, retryAfterMs === undefined ? {} : { retryAfterMs })
}
