import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../../shared/base/errors.ts'
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

/** Longer than a change takes; whoever dies in one keeps the others waiting no longer. */
const heldMs = 10_000
const patienceMs = 5_000
const pauseMs = 25
/** A lock that expired may be another one's by now. */
const release = `if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end`

/** Runs one change of `name` at a time, of all processes together. Throws 503 when others take too long, and what it throws. */
export async function oneAtATime<T>(redis: Redis, name: string, change: () => Promise<T>): Promise<T> {
  const lock = `lock:${name}`
  const token = randomUUID()
  const untilMs = Date.now() + patienceMs
  while (!(await redis.set(lock, token, 'PX', heldMs, 'NX'))) {
    if (Date.now() > untilMs)
      throw new GatewayError('service_unavailable', 'Somebody else is changing this right now. Try again.', {
        headers: { 'retry-after': '1' },
      })
    await sleep(pauseMs)
  }
  try {
    return await change()
  } finally {
    await redis.eval(release, 1, lock, token).catch(() => {}) // It expires.
  }
}
