import { ConfigError } from '../base/config.ts'
import { keyPrefixOf, type Redis } from './redis.ts'

/** Redis errors that are permanent for a client. */
const refusals = /^(?:WRONGPASS|NOAUTH|NOPERM)\b|invalid password/

/**
 * Rejects as soon as Redis rejects the user or the password of a connection: a retry would not help. The error is a
 * ConfigError with the reason, without secrets; never resolves.
 */
export function rejectOnAuthFailure(redis: Redis): Promise<never> {
  return new Promise((_, reject) => {
    redis.on('error', ({ message }) => {
      if (!refusals.test(message)) return
      redis.disconnect()
      reject(new ConfigError([`REDIS_URL: Redis refuses the user or the password: ${message}`]))
    })
  })
}

/**
 * Returns warnings if this Redis may evict keys, which hold money and jobs, or is a Redis Cluster and the keys have no
 * common hash tag. None if the server does not tell.
 */
export async function listRedisWarnings(redis: Redis): Promise<string[]> {
  // Hosted servers often forbid CONFIG but allow INFO.
  const info = await redis.info().catch(() => '')
  const policy = /^maxmemory_policy:([\w-]+)/m.exec(info)?.[1] ?? 'noeviction'
  const warnings: string[] = []
  if (policy !== 'noeviction')
    warnings.push(
      `Redis evicts keys (maxmemory-policy ${policy}): reservations, limits and jobs will be lost. Set it to noeviction.`,
    )
  if (/^redis_mode:cluster/m.test(info) && !/\{.+\}/.test(keyPrefixOf(redis)))
    warnings.push(
      'Redis is a Redis Cluster: requests fail unless all keys are in one slot. Set REDIS_KEY_PREFIX to a hash tag such as {headgate}:',
    )
  return warnings
}
