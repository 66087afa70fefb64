import { ConfigError } from '../base/config.ts'
import { keyPrefixOf, onConnectionError, primariesOf, type Redis } from './redis.ts'
import { shardsOf } from './redis-shards.ts'

/** Redis errors that are permanent for a client; those of sentinels follow the words of the client. */
const refusals = /(?:^|Last error: )(?:WRONGPASS|NOAUTH|NOPERM)\b|invalid password/

/**
 * Rejects as soon as Redis rejects the user or the password of a connection: a retry would not help. The error is a
 * ConfigError with the reason, without secrets; never resolves.
 */
export function rejectOnAuthFailure(redis: Redis): Promise<never> {
  return new Promise((_, reject) => {
    onConnectionError(redis, ({ message }) => {
      if (!refusals.test(message)) return
      redis.disconnect()
      const fault = message.startsWith('All sentinels')
        ? 'REDIS_SENTINEL_PASSWORD: the sentinels refuse the user or the password'
        : 'REDIS_URL: Redis refuses the user or the password'
      reject(new ConfigError([`${fault}: ${message}`]))
    })
  })
}

const shardCountKey = 'shards'

/** Notes in Redis how many shards its keys are divided into, unless that is noted. Throws what Redis throws. */
export async function noteShards(redis: Redis): Promise<void> {
  const { isTagged, all } = shardsOf(redis)
  if (isTagged) await redis.set(shardCountKey, all.length, 'NX')
}

/**
 * Throws a ConfigError if the keys in this Redis are divided into another number of shards than this process uses: it would
 * look for an organisation in a shard that does not have it. Throws what Redis throws.
 */
export async function confirmShards(redis: Redis): Promise<void> {
  const { isTagged, all } = shardsOf(redis)
  const found = isTagged ? await redis.get(shardCountKey) : null
  if (found !== null && found !== String(all.length))
    throw new ConfigError([
      `REDIS_SHARDS: is ${all.length}, but the keys in this Redis are divided into ${found} shards, for good`,
    ])
}

/**
 * Returns warnings if this Redis may evict keys, which hold money and jobs, or is a Redis Cluster and is not used as one.
 * None if the server does not tell.
 */
export async function listRedisWarnings(redis: Redis): Promise<string[]> {
  const warnings = new Set<string>()
  for (const server of primariesOf(redis)) {
    // Hosted servers often forbid CONFIG but allow INFO.
    const info = await server.info().catch(() => '')
    const policy = /^maxmemory_policy:([\w-]+)/m.exec(info)?.[1] ?? 'noeviction'
    if (policy !== 'noeviction')
      warnings.add(
        `Redis evicts keys (maxmemory-policy ${policy}): reservations, limits and jobs will be lost. Set it to noeviction.`,
      )
    const isInOneSlot = /\{.+\}/.test(keyPrefixOf(redis)) || shardsOf(redis).isTagged
    if (/^redis_mode:cluster/m.test(info) && !isInOneSlot)
      warnings.add(
        'Redis is a Redis Cluster: write REDIS_URL as redis+cluster://, or set REDIS_KEY_PREFIX to a hash tag such as {headgate}: to have all keys in one slot',
      )
  }
  return [...warnings]
}
