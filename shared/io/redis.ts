import type { ConnectionOptions } from 'node:tls'
import { Cluster, type ClusterOptions, type RedisOptions, Redis as SingleRedis } from 'ioredis'
import type { RedisAddress } from '../base/redis-settings.ts'
import { parseRedisUrl, type RedisTarget } from '../base/redis-url.ts'
import { elapsedMs, longAgo, systemMonotonic } from '../base/time.ts'
import { assignShards } from './redis-shards.ts'

/** A connection to one server, or the connections to the nodes of a Redis Cluster. */
export type Redis = SingleRedis | Cluster

/**
 * Socket silence timeout while a command is pending, in command timeouts: the server froze or was replaced, which
 * neither side may ever notice otherwise. A slow server loses commands and not its connections.
 */
const silentTimeouts = 2
/** The same for BullMQ, whose blocking reads wait up to ten seconds. */
const workerSilenceMs = 15_000
/** TCP keep-alive: finds dead connections without pending commands. */
const keepAliveMs = 10_000
/** Ping interval of subscriptions. */
const pingEveryMs = 5_000
const minReconnectIntervalMs = 1_000
/** A cluster that lost a node is asked for its slots at most this often. */
const minRefreshIntervalMs = 200
const slotsTimeoutMs = 2_000
/** Redirects of one command in a cluster, and its attempts while the cluster is down. */
const maxRedirections = 8
/** A sentinel that does not answer in this time is passed over. */
const sentinelTimeoutMs = 1_000

/** The options of every connection to a server. */
function connectionOptions(address: RedisAddress, target: RedisTarget): RedisOptions {
  const tls = tlsOptions(address, target.isTls)
  return {
    ...(target.kind === 'sentinel' ? sentinelOptions(address, target, tls) : tls && { tls }),
    keepAlive: keepAliveMs,
    reconnectOnError: reconnectToPrimary(),
  }
}

function targetOf({ redisUrl }: RedisAddress): RedisTarget {
  const target = parseRedisUrl(redisUrl)
  if (!target) throw new TypeError('not an address of Redis')
  return target
}

/** Undefined without TLS, and where its defaults suffice. */
function tlsOptions({ redisTlsVerify, redisTls }: RedisAddress, isTls: boolean): ConnectionOptions | undefined {
  const options = { ...redisTls, ...(!redisTlsVerify && { rejectUnauthorized: false }) }
  return isTls && Object.keys(options).length > 0 ? options : undefined
}

/** The sentinels are asked for the primary at each connection, so that a reconnect follows a failover. */
function sentinelOptions(
  { redisSentinel = {} }: RedisAddress,
  { hosts, name, database, isTls, username, password }: Extract<RedisTarget, { kind: 'sentinel' }>,
  tls: ConnectionOptions = {},
): RedisOptions {
  return {
    sentinels: hosts,
    name,
    db: database,
    ...(username && { username }),
    ...(password && { password }),
    ...(redisSentinel.username && { sentinelUsername: redisSentinel.username }),
    ...(redisSentinel.password && { sentinelPassword: redisSentinel.password }),
    sentinelCommandTimeout: sentinelTimeoutMs,
    sentinelRetryStrategy: attempt => Math.min(100 * attempt, 1_000),
    ...(isTls && { tls, sentinelTLS: tls, enableTLSForSentinelMode: true }),
  }
}

/** How a connection behaves while its server is away. */
type Behaviour = {
  server: Pick<
    RedisOptions,
    'maxRetriesPerRequest' | 'commandTimeout' | 'socketTimeout' | 'connectTimeout' | 'enableOfflineQueue'
  >
  retryDelayMs: (attempt: number) => number
  /** In a cluster: how long a command waits that a lost node may have run already; 0 = it fails. */
  resendDelayMs: number
}

function openRedis(address: RedisAddress, behaviour: Behaviour): Redis {
  const target = targetOf(address)
  const redis =
    target.kind === 'cluster' ? openCluster(address, target, behaviour) : openSingle(address, target, behaviour)
  assignShards(redis, address)
  return redis
}

function openSingle(address: RedisAddress, target: RedisTarget, { server, retryDelayMs }: Behaviour): SingleRedis {
  const keyPrefix = address.redisKeyPrefix ?? ''
  const options = { ...connectionOptions(address, target), keyPrefix, ...server, retryStrategy: retryDelayMs }
  return target.kind === 'server' ? new SingleRedis(target.url, options) : new SingleRedis(options)
}

/** The client of a Redis Cluster: it follows redirects, and learns the nodes of the slots anew when it loses one of them. */
function openCluster(
  address: RedisAddress,
  target: Extract<RedisTarget, { kind: 'cluster' }>,
  { server, retryDelayMs, resendDelayMs }: Behaviour,
): Cluster {
  const { enableOfflineQueue = true, ...options } = server
  const { username, password, isTls } = target
  const credentials = { ...(username && { username }), ...(password && { password }) }
  const { reconnectOnError: _single, ...common } = connectionOptions(address, target)
  const cluster = new Cluster(target.hosts, {
    keyPrefix: address.redisKeyPrefix ?? '',
    enableOfflineQueue,
    clusterRetryStrategy: retryDelayMs,
    retryDelayOnFailover: resendDelayMs,
    maxRedirections,
    slotsRefreshTimeout: slotsTimeoutMs,
    // Certificates have the names of the nodes.
    ...(isTls && { dnsLookup: (name: string, done: (error: null, address: string) => void) => done(null, name) }),
    redisOptions: { ...common, ...(isTls && { tls: common.tls ?? {} }), ...credentials, ...options },
  } satisfies ClusterOptions)
  let refreshedMs = longAgo
  cluster.on('-node', () => {
    const nowMs = systemMonotonic.now()
    if (cluster.status !== 'ready' || elapsedMs(refreshedMs, nowMs) < minRefreshIntervalMs) return
    refreshedMs = nowMs
    cluster.refreshSlotsCache(() => {})
  })
  return cluster
}

/**
 * Reconnects if the server has become a replica, which says `MOVED` in a Redis Cluster: the same address may lead to the
 * new primary. The rejected command fails. At most once a second, as the address may keep leading to a replica.
 */
function reconnectToPrimary(): (error: Error) => boolean {
  let lastMs = longAgo
  return ({ message }) => {
    if (!/^(READONLY|MOVED|UNBLOCKED)\b/.test(message)) return false
    const nowMs = systemMonotonic.now()
    if (elapsedMs(lastMs, nowMs) < minReconnectIntervalMs) return false
    lastMs = nowMs
    return true
  }
}

/**
 * A connection for work a client waits for: a command fails immediately while Redis is unavailable, and after
 * `timeoutMs` if it hangs, so that callers answer 503 instead of waiting.
 */
export function openRequestRedis(address: RedisAddress, timeoutMs = 2_000): Redis {
  return openRedis(address, {
    server: {
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      commandTimeout: timeoutMs,
      socketTimeout: silentTimeouts * timeoutMs,
      connectTimeout: 2_000,
    },
    retryDelayMs: attempt => Math.min(50 * attempt, 1_000),
    // A script that ran twice would reserve twice.
    resendDelayMs: 0,
  })
}

/** A connection for background work, which waits until Redis is available again (required by BullMQ workers). */
export function openWorkerRedis(address: RedisAddress): Redis {
  return openRedis(address, {
    server: { maxRetriesPerRequest: null, socketTimeout: workerSilenceMs, connectTimeout: 5_000 },
    retryDelayMs: attempt => Math.min(100 * attempt, 2_000),
    resendDelayMs: 200,
  })
}

/** The connections to the servers that have keys: one, or those to the primaries of a cluster. */
export function primariesOf(redis: Redis): SingleRedis[] {
  return redis instanceof Cluster ? redis.nodes('master') : [redis]
}

/** Calls `listener` with each error of a connection. */
export function onConnectionError(redis: Redis, listener: (error: Error) => void): void {
  redis.on('error', (error: Error & { lastNodeError?: Error }) => listener(error.lastNodeError ?? error))
  if (redis instanceof Cluster) redis.on('node error', listener)
}

/** Calls `listener` when the connection to a server is lost, which may have lost its last writes with it. */
export function onConnectionLost(redis: Redis, listener: () => void): void {
  redis.on('close', listener)
  if (redis instanceof Cluster) redis.on('-node', listener)
}

/** The key prefix of a connection. The client adds it to keys, but neither to channels nor to what a script derives. */
export function keyPrefixOf(redis: Redis): string {
  return String(redis.options.keyPrefix ?? '')
}

/** The full name of a channel, for a command or script that publishes to it. */
export function channelName(redis: Redis, channel: string): string {
  return keyPrefixOf(redis) + channel
}

/**
 * Iterates over the keys that match a pattern, in pages of a few hundred, without the connection's key prefix. A key may come
 * twice.
 */
export async function* scanKeys(redis: Redis, pattern: string): AsyncGenerator<string[]> {
  const prefix = keyPrefixOf(redis)
  for (const server of primariesOf(redis)) {
    let cursor = '0'
    do {
      const [next, keys] = await server.scan(cursor, 'MATCH', prefix + pattern, 'COUNT', 500)
      cursor = next
      if (keys.length > 0) yield prefix === '' ? keys : keys.map(key => key.slice(prefix.length))
    } while (cursor !== '0')
  }
}

/**
 * Shortens what a key has left to at most `maxMs`. Redis computes when a key expires by its wall clock: if that is set back, a key
 * from before lives that much longer. Throws what Redis throws.
 */
export async function boundTtl(redis: Redis, key: string, maxMs: number): Promise<void> {
  if ((await redis.pttl(key)) > maxMs) await redis.pexpire(key, maxMs)
}

/**
 * Subscribes to a channel on a dedicated connection until it is closed. Messages published while it is disconnected are
 * lost.
 */
export function openSubscriber(redis: Redis, channel: string, onMessage: (message: string) => void): Redis {
  const waiting = { maxRetriesPerRequest: null, commandTimeout: undefined }
  const subscriber =
    redis instanceof Cluster
      ? redis.duplicate([], { enableOfflineQueue: true, redisOptions: waiting })
      : redis.duplicate({ ...waiting, enableOfflineQueue: true, autoResubscribe: false })
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
  let last = ''
  onConnectionError(redis, error => {
    last = `: ${error.message}`
  })
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`Redis was not ready within ${timeoutMs / 1_000} s${last}`)), timeoutMs)
  })
  try {
    if (redis.status !== 'ready')
      await Promise.race([timeout, new Promise<void>(resolve => redis.once('ready', () => resolve()))])
    // The connections to nodes open with the first command, and reject others until they are open.
    if (redis instanceof Cluster) await Promise.race([timeout, Promise.all(redis.nodes('master').map(it => it.ping()))])
  } finally {
    clearTimeout(timer)
  }
}
