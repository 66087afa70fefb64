import { Redis, type RedisOptions } from 'ioredis'

export type { Redis }

export type RedisAddress = { redisUrl: string; redisTlsVerify: boolean }

/**
 * A command that no byte answers for so long costs its connection: the server froze or was replaced, and neither side may
 * ever hear of it otherwise. Longer than a command may take, so that a slow server loses commands and not its connections.
 */
const producerSilenceMs = 4_000
/** Blocking reads of BullMQ wait up to ten seconds by themselves. */
const waiterSilenceMs = 15_000
/** Finds dead connections on which nothing is asked. */
const keepAliveMs = 10_000
/** How often a subscription asks whether its connection is alive. */
const pingEveryMs = 5_000
const reconnectAtMostEveryMs = 1_000

function options({ redisUrl, redisTlsVerify }: RedisAddress): RedisOptions {
  const selfSigned = redisUrl.startsWith('rediss:') && !redisTlsVerify
  return {
    ...(selfSigned && { tls: { rejectUnauthorized: false } }),
    keepAlive: keepAliveMs,
    reconnectOnError: reconnectToPrimary(),
  }
}

/**
 * Leaves a server that has become a replica: behind the same address may be the new primary. The refused command fails. Not more
 * often than once a second, as the address may go on naming a replica.
 */
function reconnectToPrimary(): (error: Error) => boolean {
  let lastMs = Number.NEGATIVE_INFINITY
  return ({ message }) => {
    if (!/^(READONLY|UNBLOCKED)\b/.test(message)) return false
    const nowMs = performance.now()
    if (nowMs - lastMs < reconnectAtMostEveryMs) return false
    lastMs = nowMs
    return true
  }
}

/**
 * A connection for work a client waits for: a command fails at once while Redis is away, and after `timeoutMs` when it
 * hangs, so that callers answer 503 instead of waiting.
 */
export function openProducer(address: RedisAddress, timeoutMs = 2_000): Redis {
  return new Redis(address.redisUrl, {
    ...options(address),
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: timeoutMs,
    socketTimeout: producerSilenceMs,
    connectTimeout: 2_000,
    retryStrategy: attempt => Math.min(50 * attempt, 1_000),
  })
}

/** A connection for background work, which waits for Redis to come back (BullMQ's workers want exactly this). */
export function openWaiter(address: RedisAddress): Redis {
  return new Redis(address.redisUrl, {
    ...options(address),
    maxRetriesPerRequest: null,
    socketTimeout: waiterSilenceMs,
    connectTimeout: 5_000,
    retryStrategy: attempt => Math.min(100 * attempt, 2_000),
  })
}

/** Listens to a channel on a connection of its own, for as long as that is open. What is said while it is broken is lost. */
export function openSubscriber(redis: Redis, channel: string, heard: (message: string) => void): Redis {
  const listening = redis.duplicate({
    enableOfflineQueue: true,
    maxRetriesPerRequest: null,
    commandTimeout: undefined,
    autoResubscribe: false,
  })
  listening.on('error', () => {}) // It reconnects by itself.
  listening.on('ready', () => void listening.subscribe(channel).catch(() => {}))
  listening.on('message', (_channel, message) => heard(message))
  // Nothing else is ever asked on it: a server that vanished would be waited for until TCP gives it up.
  const pinging = setInterval(() => {
    if (listening.status === 'ready') listening.ping().catch(() => {})
  }, pingEveryMs)
  pinging.unref()
  listening.once('end', () => clearInterval(pinging))
  return listening
}

/** Resolves once the connection can take commands. Rejects after `timeoutMs` with what went wrong last. */
export async function ready(redis: Redis, timeoutMs: number): Promise<void> {
  if (redis.status === 'ready') return
  let last = ''
  const note = (error: Error) => {
    last = `: ${error.message}`
  }
  redis.on('error', note)
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
    redis.off('error', note)
  }
}
