import { Redis, type RedisOptions } from 'ioredis'

export type { Redis }

/** `redisKeyPrefix` is put before every key and channel; default none. */
export type RedisAddress = { redisUrl: string; redisTlsVerify: boolean; redisKeyPrefix?: string }

/**
 * Socket silence timeout while a command is pending: the server froze or was replaced, which neither side may ever
 * notice otherwise. Longer than the command timeout, so that a slow server loses commands and not its connections.
 */
const requestSilenceMs = 4_000
/** Blocking reads of BullMQ wait up to ten seconds. */
const workerSilenceMs = 15_000
/** TCP keep-alive: finds dead connections without pending commands. */
const keepAliveMs = 10_000
/** Ping interval of subscriptions. */
const pingEveryMs = 5_000
const minReconnectIntervalMs = 1_000

function options({ redisUrl, redisTlsVerify, redisKeyPrefix = '' }: RedisAddress): RedisOptions {
  const selfSigned = redisUrl.startsWith('rediss:') && !redisTlsVerify
  return {
    ...(selfSigned && { tls: { rejectUnauthorized: false } }),
    keyPrefix: redisKeyPrefix,
    keepAlive: keepAliveMs,
    reconnectOnError: reconnectToPrimary(),
  }
}

/**
 * Reconnects if the server has become a replica, which says `MOVED` in a Redis Cluster: the same address may lead to the
 * new primary. The rejected command fails. At most once a second, as the address may keep leading to a replica.
 */
function reconnectToPrimary(): (error: Error) => boolean {
  let lastMs = Number.NEGATIVE_INFINITY
  return ({ message }) => {
    if (!/^(READONLY|MOVED|UNBLOCKED)\b/.test(message)) return false
    const nowMs = performance.now()
    if (nowMs - lastMs < minReconnectIntervalMs) return false
    lastMs = nowMs
    return true
  }
}

/**
 * A connection for work a client waits for: a command fails immediately while Redis is unavailable, and after
 * `timeoutMs` if it hangs, so that callers answer 503 instead of waiting.
 */
export function openRequestRedis(address: RedisAddress, timeoutMs = 2_000): Redis {
  return new Redis(address.redisUrl, {
    ...options(address),
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: timeoutMs,
    socketTimeout: requestSilenceMs,
    connectTimeout: 2_000,
    retryStrategy: attempt => Math.min(50 * attempt, 1_000),
  })
}

/** A connection for background work, which waits until Redis is available again (required by BullMQ workers). */
export function openWorkerRedis(address: RedisAddress): Redis {
  return new Redis(address.redisUrl, {
    ...options(address),
    maxRetriesPerRequest: null,
    socketTimeout: workerSilenceMs,
    connectTimeout: 5_000,
    retryStrategy: attempt => Math.min(100 * attempt, 2_000),
  })
}

/** The key prefix of a connection. The client adds it to keys, but neither to channels nor to what a script derives. */
export function keyPrefixOf(redis: Redis): string {
  return String(redis.options.keyPrefix ?? '')
}

/** The full name of a channel, for a command or script that publishes to it. */
export function channelName(redis: Redis, channel: string): string {
  return keyPrefixOf(redis) + channel
}

/** Iterates over the keys that match a pattern, in pages of a few hundred, without the connection's key prefix. */
export async function* scanKeys(redis: Redis, pattern: string): AsyncGenerator<string[]> {
  const prefix = keyPrefixOf(redis)
  let cursor = '0'
  do {
    const [next, keys] = await redis.scan(cursor, 'MATCH', prefix + pattern, 'COUNT', 500)
    cursor = next
    if (keys.length > 0) yield prefix === '' ? keys : keys.map(key => key.slice(prefix.length))
  } while (cursor !== '0')
}

/**
 * Subscribes to a channel on a dedicated connection until it is closed. Messages published while it is disconnected are
 * lost.
 */
export function openSubscriber(redis: Redis, channel: string, onMessage: (message: string) => void): Redis {
  const subscriber = redis.duplicate({
    enableOfflineQueue: true,
    maxRetriesPerRequest: null,
    commandTimeout: undefined,
    autoResubscribe: false,
  })
  subscriber.on('error', () => {}) // The client reconnects automatically.
  subscriber.on('ready', () => void subscriber.subscribe(channelName(redis, channel)).catch(() => {}))
  subscriber.on('message', (_channel, message) => onMessage(message))
  // No other command is sent on it: without pings, a vanished server is noticed only at the TCP timeout.
  const pingTimer = setInterval(() => {
    if (subscriber.status === 'ready') subscriber.ping().catch(() => {})
  }, pingEveryMs)
  pingTimer.unref()
  subscriber.once('end', () => clearInterval(pingTimer))
  return subscriber
}

/** Resolves once the connection accepts commands. Rejects after `timeoutMs` with the last error. */
export async function waitUntilReady(redis: Redis, timeoutMs: number): Promise<void> {
  if (redis.status === 'ready') return
  let last = ''
  const rememberError = (error: Error) => {
    last = `: ${error.message}`
  }
  redis.on('error', rememberError)
  try {
    await new Promise<void>((resolve, reject) => {
      const fail = () => reject(new Error(`Redis was not ready within ${timeoutMs / 1_000} s${last}`))
      const timer = setTimeout(fail, timeoutMs)
      redis.once('ready', () => {
        clearTimeout(timer)
        resolve()
      })
    })
  } finally {
    redis.off('error', rememberError)
  }
}
