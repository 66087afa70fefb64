import { Redis } from 'ioredis'

export type { Redis }

export type RedisAddress = { redisUrl: string; redisTlsVerify: boolean }

function tls({ redisUrl, redisTlsVerify }: RedisAddress) {
  return redisUrl.startsWith('rediss:') && !redisTlsVerify ? { tls: { rejectUnauthorized: false } } : {}
}

/**
 * A connection for work a client waits for: a command fails at once while Redis is away, and after `timeoutMs` when it
 * hangs, so that callers answer 503 instead of waiting.
 */
export function openProducer(address: RedisAddress, timeoutMs = 2_000): Redis {
  return new Redis(address.redisUrl, {
    ...tls(address),
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: timeoutMs,
    connectTimeout: 2_000,
    retryStrategy: attempt => Math.min(50 * attempt, 1_000),
  })
}

/** A connection for background work, which waits for Redis to come back (BullMQ's workers want exactly this). */
export function openWaiter(address: RedisAddress): Redis {
  return new Redis(address.redisUrl, {
    ...tls(address),
    maxRetriesPerRequest: null,
    connectTimeout: 5_000,
    retryStrategy: attempt => Math.min(100 * attempt, 2_000),
  })
}

/** Resolves once the connection can take commands; rejects after `timeoutMs`. */
export async function ready(redis: Redis, timeoutMs: number): Promise<void> {
  if (redis.status === 'ready') return
  await new Promise<void>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('Redis did not answer')), timeoutMs)
    redis.once('ready', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}
