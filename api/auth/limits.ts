import type { Redis } from '../../shared/io/redis.ts'

export type Rule = { windowS: number; most: number }

/**
 * Counts one use of `name` and says whether it is within the rule, by all processes together. The window begins with its
 * first use. Throws what Redis throws.
 */
export async function consume(
  redis: Redis,
  name: string,
  { windowS, most }: Rule,
): Promise<{ allowed: boolean; retryAfterS: number }> {
  const key = `attempts:${name}`
  const replies = await redis.multi().set(key, 0, 'EX', windowS, 'NX').incr(key).ttl(key).exec()
  const [count, leftS] = [replies![1]![1] as number, replies![2]![1] as number]
  return { allowed: count <= most, retryAfterS: Math.max(1, leftS) }
}
