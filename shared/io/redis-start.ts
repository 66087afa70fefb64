import { ConfigError } from '../base/config.ts'
import type { Redis } from './redis.ts'

/** What Redis says to a client that it will never serve. */
const refusals = /^(?:WRONGPASS|NOAUTH|NOPERM)\b|invalid password/

/**
 * Rejects as soon as Redis refuses the user or the password of a connection: to try again would not help. Throws a ConfigError
 * with the reason, which names no secret; never resolves.
 */
export function refused(redis: Redis): Promise<never> {
  return new Promise((_, reject) => {
    redis.on('error', ({ message }) => {
      if (!refusals.test(message)) return
      redis.disconnect()
      reject(new ConfigError([`REDIS_URL: Redis refuses the user or the password: ${message}`]))
    })
  })
}

/** Why this Redis must not be used as it is: it drops keys, which are money and jobs. Null where it keeps them, or will not say. */
export async function evictionWarning(redis: Redis): Promise<string | null> {
  // Hosted servers often forbid CONFIG, and allow INFO.
  const memory = await redis.info('memory').catch(() => '')
  const policy = /^maxmemory_policy:([\w-]+)/m.exec(memory)?.[1] ?? 'noeviction'
  if (policy === 'noeviction') return null
  return `Redis evicts keys (maxmemory-policy ${policy}): reservations, limits and jobs will be lost. Set it to noeviction.`
}
