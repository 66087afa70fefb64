import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { asText } from '../../shared/base/as-text.ts'
import { GatewayError } from '../../shared/base/errors.ts'
import { addMs, systemMonotonic } from '../../shared/base/time.ts'
import type { Database } from '../../shared/io/db.ts'
import { defineScript } from '../../shared/io/lua-script.ts'
import { storeUnavailable } from '../../shared/io/outage.ts'
import { boundTtl, type Redis } from '../../shared/io/redis.ts'

export type Rule = { windowS: number; max: number }

/**
 * Counts one use of `name` and returns whether it is within the rule, across all processes. The window begins with its
 * first use. Throws what Redis throws.
 */
export async function consumeRateLimit(
  redis: Redis,
  name: string,
  { windowS, max }: Rule,
): Promise<{ allowed: boolean; retryAfterS: number }> {
  const key = `attempts:${name}`
  const replies = await redis.multi().set(key, 0, 'EX', windowS, 'NX').incr(key).ttl(key).exec()
  const [count, leftS] = [replies![1]![1] as number, replies![2]![1] as number]
  if (leftS > windowS) await boundTtl(redis, key, windowS * 1_000)
  return { allowed: count <= max, retryAfterS: Math.min(windowS, Math.max(1, leftS)) }
}

/** Counts one use of `name` as `consumeRateLimit` does. Throws 429 with `message` beyond the rule, and what Redis throws. */
export async function assertRateLimit(redis: Redis, name: string, rule: Rule, message: string): Promise<void> {
  const { allowed, retryAfterS } = await consumeRateLimit(redis, name, rule)
  if (!allowed)
    throw new GatewayError('rate_limit_exceeded', message, { headers: { 'retry-after': String(retryAfterS) } })
}

/** What a request must have alone: the organisation of its `organizationId` or invitation, or the person who sends it. */
export type Alone = 'organisation' | 'person'

/** The name of that lock; null if there is no such person or invitation, as for a request that needs none. Throws 503. */
export async function lockOf(
  db: Database,
  alone: Alone | null,
  input: Record<string, unknown>,
  sender: () => Promise<{ id: string } | null>,
): Promise<string | null> {
  if (alone === null) return null
  if (alone === 'person') {
    const person = await sender()
    return person && `person:${person.id}`
  }
  if (input.organizationId !== undefined) return `members:${asText(input.organizationId)}`
  const where = { id: asText(input.invitationId) }
  const invitation = await db.invitation.findUnique({ where, select: { organisationId: true } }).catch(error => {
    throw storeUnavailable(error)
  })
  return invitation && `members:${invitation.organisationId}`
}

/** Exceeds the duration of a change; bounds how long a crashed holder blocks others. */
const heldMs = 10_000
const patienceMs = 5_000
const pauseMs = 25
/** Compare-and-delete: an expired lock may belong to another holder by now. */
const releaseLock = defineScript({
  name: 'release-lock',
  lua: `if redis.call('GET', lock_key) == token then redis.call('DEL', lock_key) end`,
  keys: ['lockKey'],
  args: { token: 'text' },
})

/** Runs changes of `name` one at a time across all processes. Throws 503 on lock timeout, and what `change` throws. */
export async function withLock<T>(redis: Redis, name: string, change: () => Promise<T>): Promise<T> {
  const lockKey = `lock:${name}`
  const token = randomUUID()
  const untilMs = addMs(systemMonotonic.now(), patienceMs)
  for (let tries = 0; !(await redis.set(lockKey, token, 'PX', heldMs, 'NX')); tries++) {
    if (tries === 0) await boundTtl(redis, lockKey, heldMs)
    if (systemMonotonic.now() > untilMs)
      throw new GatewayError('service_unavailable', 'Another change is in progress. Try again.', {
        headers: { 'retry-after': '1' },
      })
    await sleep(pauseMs)
  }
  try {
    return await change()
  } finally {
    await releaseLock(redis, { lockKey, token }).catch(() => {}) // The lock expires.
  }
}
