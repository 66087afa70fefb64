import type { Redis } from 'ioredis'

/** All keys of a Redis database, as they were at one time. */
export type RedisSnapshot = readonly { key: string; ttlMs: number; value: Buffer }[]

export async function takeSnapshot(redis: Redis): Promise<RedisSnapshot> {
  const keys = await redis.keys('*')
  return Promise.all(
    keys.map(async key => ({ key, ttlMs: Math.max(0, await redis.pttl(key)), value: (await redis.dumpBuffer(key))! })),
  )
}

/** Puts a snapshot in the place of what is there, in one step: clients keep their connections and see no empty Redis. */
export async function restoreSnapshot(redis: Redis, snapshot: RedisSnapshot): Promise<void> {
  await redis.multi({ pipeline: false })
  await redis.flushdb()
  for (const { key, ttlMs, value } of snapshot) await redis.restore(key, ttlMs, value)
  for (const [error] of (await redis.exec()) ?? []) if (error) throw error
}
