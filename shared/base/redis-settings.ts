import type { z } from 'zod'
import type { variables } from './variables.ts'

/** How a process reaches Redis. All processes and operator commands of a gateway have the same settings. */
export type RedisSettings = {
  redisUrl: string
  /** False accepts a self-signed certificate of a TLS server, which hosted add-ons use. */
  redisTlsVerify: boolean
  /** PEM texts for TLS: the authority that signed the server's certificate, and the client's certificate with its key. */
  redisTls: { ca?: string; cert?: string; key?: string }
  /** The user and the password at the sentinels, which differ from those of Redis. */
  redisSentinel: { username?: string; password?: string }
  /** Put before every key and channel in Redis; '' = none. */
  redisKeyPrefix: string
  /** In a Redis Cluster: the number of parts that the organisations are divided into, fixed for the life of its data. */
  redisShards: number
}

/** What is left out is as by default: certificates verified by the system's authorities, and no prefix. */
export type RedisAddress = Pick<RedisSettings, 'redisUrl' | 'redisTlsVerify'> & Partial<RedisSettings>

/** The settings of Redis. */
export function redisSettings(v: z.output<typeof variables>): RedisSettings {
  const { REDIS_TLS_CA: ca, REDIS_TLS_CERT: cert, REDIS_TLS_KEY: key } = v
  const { REDIS_SENTINEL_USERNAME: username, REDIS_SENTINEL_PASSWORD: password } = v
  return {
    redisUrl: v.REDIS_URL,
    redisTlsVerify: v.REDIS_TLS_VERIFY,
    redisTls: { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) },
    redisSentinel: { ...(username && { username }), ...(password && { password }) },
    redisKeyPrefix: v.REDIS_KEY_PREFIX,
    redisShards: v.REDIS_SHARDS,
  }
}
