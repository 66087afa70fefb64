import type { Redis } from '../../../shared/io/redis.ts'

/** Everything a Redis database holds, names and values, as one text; for searching. */
export async function dumpRedis(redis: Redis): Promise<string> {
  const parts: string[] = []
  let cursor = '0'
  do {
    const [next, keys] = await redis.scan(cursor, 'COUNT', '1000')
    cursor = next
    for (const key of keys) parts.push(key, JSON.stringify(await contentOf(redis, key)))
  } while (cursor !== '0')
  return parts.join('\n')
}

async function contentOf(redis: Redis, key: string): Promise<unknown> {
  switch (await redis.type(key)) {
    case 'string':
      return redis.get(key)
    case 'hash':
      return redis.hgetall(key)
    case 'list':
      return redis.lrange(key, '0', '-1')
    case 'set':
      return redis.smembers(key)
    case 'zset':
      return redis.zrange(key, '0', '-1')
    case 'stream':
      return redis.xrange(key, '-', '+')
    default:
      return null // It was gone by the time.
  }
}
