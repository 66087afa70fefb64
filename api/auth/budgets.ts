import { APIError } from 'better-auth/api'
import type { Redis } from '../../shared/io/redis.ts'
import type { Rule } from './limits.ts'

/** A count of attempts under one name, and what it may come to. */
export type Budget = Rule & { name: string }

/** Counts one attempt in every budget, or in none of them when one is used up: then it gives the seconds until that ends. */
const takeScript = `
  for i, key in ipairs(KEYS) do
    if tonumber(redis.call('get', key) or '0') >= tonumber(ARGV[2 * i]) then return math.max(1, redis.call('ttl', key)) end
  end
  for i, key in ipairs(KEYS) do
    if redis.call('incr', key) == 1 then redis.call('expire', key, ARGV[2 * i - 1]) end
  end
  return 0`
const giveBackScript = `
  for _, key in ipairs(KEYS) do
    if tonumber(redis.call('get', key) or '0') > 0 then redis.call('decr', key) end
  end`

const keysOf = (budgets: readonly Budget[]) => budgets.map(({ name }) => `attempts:${name}`)

/**
 * Counts an attempt before it is made, so that many at a time are no way around the limit. Resolves with the seconds to wait
 * where a budget is used up, which counts nothing; 0 = go on. Throws what Redis throws.
 */
export async function takeAttempt(redis: Redis, budgets: readonly Budget[]): Promise<number> {
  const limits = budgets.flatMap(({ windowS, most }) => [windowS, most])
  return (await redis.eval(takeScript, budgets.length, ...keysOf(budgets), ...limits)) as number
}

/** Takes an attempt out of the count again: it was right, or it never was one. */
export async function giveBackAttempt(redis: Redis, budgets: readonly Budget[]): Promise<void> {
  await redis.eval(giveBackScript, budgets.length, ...keysOf(budgets))
}

/** Forgets what was counted under these names. */
export async function forgetAttempts(redis: Redis, names: readonly string[]): Promise<void> {
  await redis.del(names.map(name => `attempts:${name}`))
}

/** The refusal of an attempt; `message` says what to do besides waiting. */
export function tooManyAttempts(message: string, retryAfterS: number): APIError {
  const text = `${message} Try again in ${Math.ceil(retryAfterS / 60)} min.`
  return new APIError(
    'TOO_MANY_REQUESTS',
    { code: 'TOO_MANY_ATTEMPTS', message: text },
    { 'retry-after': String(retryAfterS) },
  )
}
