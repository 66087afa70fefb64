import { APIError } from 'better-auth/api'
import { defineScript } from '../../shared/io/lua-script.ts'
import type { Redis } from '../../shared/io/redis.ts'
import { sharedTag } from '../../shared/io/redis-shards.ts'
import type { Rule } from './limits.ts'

/** A counter of attempts under one name, and its limit. */
export type Budget = Rule & { name: string }

const attemptsPrefix = 'attempts:'
const keyPrefixes = { attemptsPrefix }
const tagOf = (redis: Redis) => sharedTag(redis, 'attempts')

/**
 * Counts one attempt in every budget. If any budget is used up, counts none and returns the seconds until that budget
 * resets.
 */
const takeAttempts = defineScript({
  name: 'take-attempts',
  lua: `
    for _, budget in ipairs(budgets) do
      local key = attempts_prefix .. budget.name
      if tonumber(redis.call('GET', key) or '0') >= budget.max then return math.max(1, redis.call('TTL', key)) end
    end
    for _, budget in ipairs(budgets) do
      local key = attempts_prefix .. budget.name
      if redis.call('INCR', key) == 1 then redis.call('EXPIRE', key, budget.window_s) end
    end
    return 0`,
  keyPrefixes,
  args: { budgets: { name: 'text', windowS: 'number', max: 'number' } },
})
const refundAttempts = defineScript({
  name: 'refund-attempts',
  lua: `
    for _, budget in ipairs(budgets) do
      local key = attempts_prefix .. budget.name
      if tonumber(redis.call('GET', key) or '0') > 0 then redis.call('DECR', key) end
    end`,
  keyPrefixes,
  args: { budgets: { name: 'text' } },
})

/** Names contain emails that are not validated yet; a script cannot receive control characters in a list. */
const withoutControls = (name: string) => name.replaceAll(/\p{Cc}/gu, '')
const withPlainName = (budget: Budget) => ({ ...budget, name: withoutControls(budget.name) })

/**
 * Counts an attempt before it is made, so that concurrent attempts cannot exceed the limit. Resolves with the seconds
 * to wait when a budget is used up (nothing is counted then), 0 = proceed. Throws what Redis throws.
 */
export async function takeAttempt(redis: Redis, budgets: readonly Budget[]): Promise<number> {
  return (await takeAttempts(redis, { budgets: budgets.map(withPlainName) }, tagOf(redis))) as number
}

/** Refunds an attempt that succeeded or never took place. */
export async function refundAttempt(redis: Redis, budgets: readonly Budget[]): Promise<void> {
  await refundAttempts(redis, { budgets: budgets.map(withPlainName) }, tagOf(redis))
}

/** Resets the counters of these names. */
export async function resetAttempts(redis: Redis, names: readonly string[]): Promise<void> {
  await redis.del(names.map(name => tagOf(redis) + attemptsPrefix + withoutControls(name)))
}

/** The error for an attempt over budget; `message` names an alternative to waiting. */
export function tooManyAttemptsError(message: string, retryAfterS: number): APIError {
  const text = `${message} Try again in ${Math.ceil(retryAfterS / 60)} min.`
  return new APIError(
    'TOO_MANY_REQUESTS',
    { code: 'TOO_MANY_ATTEMPTS', message: text },
    { 'retry-after': String(retryAfterS) },
  )
}
