import type { Config } from './base/config.ts'
import { requestDeadlineMs } from './base/deadlines.ts'
import { Shutdown } from './base/shutdown.ts'
import { type Clock, type MonotonicClock, systemMonotonic } from './base/time.ts'
import { type Catalog, LiveCatalog, openCatalog } from './catalog/catalog.ts'
import { CatalogOverrides } from './catalog/catalog-overrides.ts'
import { type Budgets, openBudgets } from './io/byte-budget.ts'
import { ClockSkew } from './io/clock-skew.ts'
import { confirmTimeZone, type Database, openDatabaseOver } from './io/db.ts'
import { DisconnectedCalls } from './io/http.ts'
import { KeepAlive } from './io/keep-alive.ts'
import type { Logger } from './io/log.ts'
import { Mailer } from './io/mail.ts'
import { openPool } from './io/postgres.ts'
import { RawPool } from './io/raw-pool.ts'
import { onConnectionError, openRequestRedis, type Redis, waitUntilReady } from './io/redis.ts'
import type { Shard } from './io/redis-shards.ts'
import { confirmShards, listRedisWarnings, noteShards, rejectOnAuthFailure } from './io/redis-start.ts'
import type { UrlPolicy } from './io/safe-url.ts'
import { Sealer } from './io/sealer.ts'
import type { Blobs } from './io/storage/blobs.ts'
import { openBlobs } from './io/storage/open-blobs.ts'
import { KeyWatch } from './keys/key-watch.ts'
import { Keys } from './keys/keys.ts'
import { Policies } from './keys/policies.ts'
import { PolicyReader } from './keys/policy-reader.ts'
import { SigningSecret } from './keys/signing-secret.ts'
import { ConcurrencyLimiter } from './limiter/concurrency-limiter.ts'
import type { Metrics } from './metrics/metrics.ts'
import { openMetrics } from './metrics/open-metrics.ts'
import { Presets } from './presets/presets.ts'
import { Health } from './providers/health.ts'
import { addProcessGauges } from './providers/process-gauges.ts'
import { ProviderKeys } from './providers/provider-keys.ts'
import { ProviderPauses } from './providers/provider-pauses.ts'
import { ReservationFactors } from './providers/reservation-factors.ts'
import { createSandbox } from './providers/sandbox/upstream.ts'
import { Upstreams } from './providers/upstreams.ts'
import { CompletionSignals } from './queues/completion-signals.ts'
import { openQueues, type Queues, queueAddress } from './queues/queues.ts'
import { openTracing } from './traces/open-tracing.ts'
import type { Tracing } from './traces/tracing.ts'
import { Admission } from './wallet/admission.ts'
import { RefusalLog } from './wallet/refusal-log.ts'
import { loadScripts, type Scripts } from './wallet/scripts.ts'
import type { UsageEvent } from './wallet/usage-event.ts'
import { Wallets } from './wallet/wallets.ts'

/**
 * What every room needs, opened once per process. What a room adds is in its own `…-services.ts`, and `open-services.ts`
 * opens all of it.
 */
export type Platform = {
  config: Config
  /** Dates: whatever is stored, expires, is billed or is compared with what another process has stored. */
  clock: Clock
  /** Durations within the process. */
  monotonic: MonotonicClock
  clockSkew: ClockSkew
  log: Logger
  /** Null = none are collected. */
  metrics: Metrics | null
  tracing: Tracing | null
  catalog: Catalog
  catalogOverrides: CatalogOverrides
  db: Database
  rawPool: RawPool
  redis: Redis
  /** The connection of the queues, without a key prefix: `redis`, if that has none. */
  queueRedis: Redis
  scripts: Scripts
  wallets: Wallets
  admission: Admission
  refusalLog: RefusalLog
  policies: Policies
  keyWatch: KeyWatch
  keys: Keys
  presets: Presets
  upstreams: Upstreams
  health: Health
  providerPauses: ProviderPauses
  providerKeys: ProviderKeys
  reservationFactors: ReservationFactors
  limiter: ConcurrencyLimiter
  keepAlive: KeepAlive
  disconnectedCalls: DisconnectedCalls
  shutdown: Shutdown
  budgets: Budgets
  urlPolicy: UrlPolicy
  sealer: Sealer
  signingSecret: SigningSecret
  blobs: Blobs
  queues: Queues
  completionSignals: CompletionSignals
  mailer: Mailer
}

/** A request must be answered within ten seconds, even if PostgreSQL never answers. */
const requestStatementMs = 6_000
/** For background work that no client waits for. */
export const backgroundStatementMs = 30_000

/** How the platform is opened. */
export type PlatformOptions = {
  /** Gives dates; by default this machine's clock while that is right, and the stores' while it is not. */
  clock?: Clock | undefined
  monotonic?: MonotonicClock | undefined
  /** The maximum duration of a statement; by default that of a request. */
  statementTimeoutMs?: number | undefined
  /** The maximum wait for a connection to PostgreSQL; by default that of a request. */
  connectTimeoutMs?: number | undefined
  /** The maximum wait for Redis to reply; by default that of a request. */
  redisTimeoutMs?: number | undefined
}

/**
 * Opens the stores and what is built on them directly. Throws a ConfigError if the model catalog is invalid, and an Error if
 * Redis cannot be reached.
 */
export async function openPlatform(config: Config, log: Logger, options: PlatformOptions = {}): Promise<Platform> {
  const { monotonic = systemMonotonic, statementTimeoutMs = requestStatementMs } = options
  const catalog = new LiveCatalog(openCatalog(config))
  const tracing = await openTracing(config.tracing, config.proxies)
  const { db, pool, rawPool, redis, queueRedis, clockSkew } = await openStores(config, log, {
    ...options,
    statementTimeoutMs,
  })
  const clock = options.clock ?? clockSkew
  const scripts = loadScripts(redis)
  const wallets = new Wallets({ db, redis, scripts, clock, log })
  const metrics = await openMetrics(config, catalog)
  const onSettled = metrics ? (event: UsageEvent) => metrics.recordUsage(event) : undefined
  const admission = new Admission({ scripts, wallets, clock, log, deadlineMs: requestDeadlineMs(config), onSettled })
  const refusalLog = new RefusalLog({ rawPool, clock, log })
  const validSince = (shard: Shard) => wallets.generations.known[shard.index]!.validSince
  const reader = new PolicyReader(pool, clock)
  const policies = new Policies({ db, reader, redis, clock, testLimits: config.quotas.testKey, validSince })
  const keyWatch = new KeyWatch({ policies, clock, log })
  const health = new Health(redis, { clock, monotonic })
  const providerPauses = new ProviderPauses({ db, redis, clock, log })
  const reservationFactors = new ReservationFactors({ db, clock, log })
  const sandbox = createSandbox()
  const sealer = new Sealer(config.encryptionKeys)
  const urlPolicy = { allowPrivate: config.allowPrivateUrls, proxies: config.proxies }
  const upstreams = new Upstreams({ catalog, config, health, pauses: providerPauses, sandbox, clock, sealer })
  const disconnectedCalls = new DisconnectedCalls()
  const limiter = new ConcurrencyLimiter({ redis, monotonic, max: config.bulkConcurrency })
  const catalogOverrides = new CatalogOverrides(
    { db, clock, log, sealer },
    {
      catalog,
      setServers: servers => upstreams.setServers(servers),
      setKeys: keys => upstreams.setKeys(keys),
      onChange: changed => metrics?.addNames(changed),
    },
  )
  await catalogOverrides.start()
  const signingSecret = new SigningSecret(db, config.signingSecrets, sealer)
  const blobs = await openBlobs(config, () => signingSecret.get(), clock, signingSecret.older)
  const queues = openQueues(queueRedis, config)
  for (const queue of Object.values(queues)) queue.on('error', error => log.warn({ err: error }, 'queue connection'))
  const completionSignals = new CompletionSignals(redis)
  const keepAlive = new KeepAlive()
  if (metrics) addProcessGauges(metrics, { admission, health, keepAlive, catalog, clockSkew })
  const mailer = await Mailer.open(config.email, redis, log)
  return {
    config,
    clock,
    monotonic,
    clockSkew,
    log,
    metrics,
    tracing,
    catalog,
    catalogOverrides,
    db,
    rawPool,
    redis,
    queueRedis,
    scripts,
    wallets,
    admission,
    refusalLog,
    policies,
    keyWatch,
    keys: new Keys(db, policies, { clock, maxTestKeys: config.quotas.testKeys, urlPolicy }),
    presets: new Presets({ db, clock, monotonic }),
    upstreams,
    health,
    providerPauses,
    providerKeys: new ProviderKeys({ db, policies, sealer, clock, catalog, upstreams }),
    reservationFactors,
    limiter,
    keepAlive,
    disconnectedCalls,
    shutdown: new Shutdown(),
    budgets: openBudgets(config),
    urlPolicy,
    sealer,
    signingSecret,
    blobs,
    queues,
    completionSignals,
    mailer,
  }
}

/** Settles open reservations and closes every connection. */
export async function closePlatform(platform: Platform): Promise<void> {
  const { catalogOverrides, clockSkew, keyWatch, health, providerPauses, reservationFactors } = platform
  const { disconnectedCalls, limiter, completionSignals } = platform
  const { admission, refusalLog, upstreams, queues, mailer, tracing, blobs, db, rawPool, redis, queueRedis } = platform
  const timers = [catalogOverrides, clockSkew, keyWatch, health, providerPauses, reservationFactors]
  for (const one of [...timers, disconnectedCalls, limiter, completionSignals]) one.close()
  await Promise.all([admission.close(), refusalLog.close()])
  await upstreams.close()
  await Promise.all(Object.values(queues).map(queue => queue.close()))
  await mailer.close()
  await tracing?.close()
  blobs.close()
  await Promise.all([db.$disconnect(), rawPool.close()])
  redis.disconnect()
  queueRedis.disconnect()
}

type StoreTimeouts = PlatformOptions & { statementTimeoutMs: number }

/** Connects to PostgreSQL and Redis, and checks what each must be. */
async function openStores(config: Config, log: Logger, timeouts: StoreTimeouts) {
  const { statementTimeoutMs, connectTimeoutMs, redisTimeoutMs } = timeouts
  const { databaseUrl, databasePool, databasePooler: pooler } = config
  const pool = openPool(databaseUrl, { connections: databasePool, statementTimeoutMs, connectTimeoutMs, pooler })
  const db = openDatabaseOver(pool)
  const rawPool = new RawPool(databaseUrl, { connectTimeoutMs, pooler })
  const redis = openRequestRedis(config, redisTimeoutMs)
  const queueRedis = config.redisKeyPrefix === '' ? redis : openRequestRedis(queueAddress(config), redisTimeoutMs)
  const connecting = [...new Set([redis, queueRedis])].map(connection => {
    onConnectionError(connection, error => log.warn({ err: error }, 'Redis connection'))
    return Promise.race([waitUntilReady(connection, 10_000), rejectOnAuthFailure(connection)])
  })
  // `$connect` contacts no server: it loads the query compiler, which would otherwise delay the first request.
  await Promise.all([...connecting, db.$connect()])
  await noteShards(redis)
  await confirmShards(redis)
  await confirmTimeZone(db)
  const clockSkew = new ClockSkew({ db, redis, log })
  await clockSkew.start()
  for (const warning of await listRedisWarnings(redis)) log.error(warning)
  return { db, pool, rawPool, redis, queueRedis, clockSkew }
}
