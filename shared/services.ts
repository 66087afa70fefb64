import type { Config } from './base/config.ts'
import { requestDeadlineMs, startLeaseMs } from './base/deadlines.ts'
import { Shutdown } from './base/shutdown.ts'
import { type Clock, type MonotonicClock, systemMonotonic } from './base/time.ts'
import { BatchJournal } from './batches/batch-journal.ts'
import { Batches } from './batches/batches.ts'
import type { Catalog } from './catalog/catalog.ts'
import { CatalogOverrides } from './catalog/catalog-overrides.ts'
import { LiveCatalog } from './catalog/live-catalog.ts'
import { openCatalog } from './catalog/open-catalog.ts'
import { ContentLog } from './content-log/content-log.ts'
import { Contents } from './content-log/contents.ts'
import { DelayedJobs } from './delayed/delayed-jobs.ts'
import { StatedCosts } from './engine/stated-costs.ts'
import { UnknownNames } from './engine/unknown-names.ts'
import { Feedback } from './feedback/feedback.ts'
import { LearnedQualities } from './feedback/learned-qualities.ts'
import { Files } from './files/files.ts'
import { type Budgets, openBudgets } from './io/byte-budget.ts'
import { ClockSkew } from './io/clock-skew.ts'
import { confirmTimeZone, type Database, openDatabase } from './io/db.ts'
import { DisconnectedCalls } from './io/disconnected-calls.ts'
import { KeepAlive } from './io/keep-alive.ts'
import type { Logger } from './io/log.ts'
import { Mailer } from './io/mail.ts'
import { RawPool } from './io/raw-pool.ts'
import { onConnectionError, openRequestRedis, type Redis, waitUntilReady } from './io/redis.ts'
import { confirmShards, listRedisWarnings, noteShards, rejectOnAuthFailure } from './io/redis-start.ts'
import type { UrlPolicy } from './io/safe-url.ts'
import { Sealer } from './io/sealer.ts'
import type { Blobs } from './io/storage/blobs.ts'
import { openBlobs } from './io/storage/open-blobs.ts'
import { Jobs } from './jobs/jobs.ts'
import { KeyWatch } from './keys/key-watch.ts'
import { Keys } from './keys/keys.ts'
import { Policies } from './keys/policies.ts'
import { SigningSecret } from './keys/signing-secret.ts'
import { ConcurrencyLimiter } from './limiter/concurrency-limiter.ts'
import type { Metrics } from './metrics/metrics.ts'
import { openMetrics } from './metrics/open-metrics.ts'
import { recordLines } from './metrics/record-lines.ts'
import { TopUps } from './payments/top-ups.ts'
import { Health } from './providers/health.ts'
import { addProcessGauges } from './providers/process-gauges.ts'
import { ProviderPauses } from './providers/provider-pauses.ts'
import { ReservationFactors } from './providers/reservation-factors.ts'
import { createSandbox } from './providers/sandbox/upstream.ts'
import { Upstreams } from './providers/upstreams.ts'
import { BatchWakes } from './queues/batch-wakes.ts'
import { CompletionSignals } from './queues/completion-signals.ts'
import { Suspects } from './queues/crash-suspect-limiter.ts'
import { PollSchedule } from './queues/poll-schedule.ts'
import { openQueues, type Queues, queueAddress } from './queues/queues.ts'
import { type DelayedTask, type MediaTask, Tasks } from './queues/tasks.ts'
import { Payloads } from './responses/payloads.ts'
import { ResponseEvents } from './responses/response-events.ts'
import { ResponseSettingsReader } from './responses/response-settings.ts'
import { Conversations } from './responses/stored-conversations.ts'
import { StoredResponses } from './responses/stored-responses.ts'
import { OutputHistory } from './routing/output-history.ts'
import { StickySessions } from './routing/sticky-sessions.ts'
import { openTracing } from './traces/open-tracing.ts'
import type { Tracing } from './traces/tracing.ts'
import { Accounts } from './wallet/accounts.ts'
import { Admission } from './wallet/admission.ts'
import { RefusalLog } from './wallet/refusal-log.ts'
import { loadScripts, type Scripts } from './wallet/scripts.ts'
import type { UsageEvent } from './wallet/usage-event.ts'
import { WebhookEndpoints } from './webhooks/endpoints.ts'
import { Webhooks } from './webhooks/webhooks.ts'

/** Everything with a lifetime, opened once per process. */
export type Services = {
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
  scripts: Scripts
  accounts: Accounts
  topUps: TopUps
  admission: Admission
  refusalLog: RefusalLog
  unknownNames: UnknownNames
  statedCosts: StatedCosts
  policies: Policies
  keyWatch: KeyWatch
  keys: Keys
  upstreams: Upstreams
  health: Health
  providerPauses: ProviderPauses
  limiter: ConcurrencyLimiter
  stickySessions: StickySessions
  outputHistory: OutputHistory
  reservationFactors: ReservationFactors
  feedback: Feedback
  learnedQualities: LearnedQualities
  keepAlive: KeepAlive
  disconnectedCalls: DisconnectedCalls
  shutdown: Shutdown
  budgets: Budgets
  urlPolicy: UrlPolicy
  sealer: Sealer
  signingSecret: SigningSecret
  blobs: Blobs
  files: Files
  queues: Queues
  jobs: Jobs
  mediaTasks: Tasks<MediaTask>
  pollSchedule: PollSchedule
  delayedJobs: DelayedJobs
  delayedTasks: Tasks<DelayedTask>
  webhooks: Webhooks
  webhookEndpoints: WebhookEndpoints
  mailer: Mailer
  batches: Batches
  batchJournal: BatchJournal
  batchWakes: BatchWakes
  responseSettings: ResponseSettingsReader
  storedResponses: StoredResponses
  responseEvents: ResponseEvents
  conversations: Conversations
  contents: Contents
  contentLog: ContentLog
  completionSignals: CompletionSignals
  suspects: Suspects
  /** Settles open reservations and closes every connection; idempotent. */
  close(): Promise<void>
}

/** A request must be answered within ten seconds, even if PostgreSQL never answers. */
const requestStatementMs = 6_000
/** For background work that no client waits for. */
export const backgroundStatementMs = 30_000

/**
 * Opens the services. Dates are of `time`, by default of this machine's clock while that is right, and of the stores' while
 * it is not. `statementTimeoutMs` is the maximum duration of a statement. Throws a ConfigError if the model catalog is
 * invalid, and an Error if Redis cannot be reached.
 */
export async function openServices(
  config: Config,
  log: Logger,
  time: Clock | null = null,
  statementTimeoutMs = requestStatementMs,
  monotonic: MonotonicClock = systemMonotonic,
): Promise<Services> {
  const catalog = new LiveCatalog(openCatalog(config))
  const { databaseUrl, databasePool, databasePooler } = config
  const tracing = await openTracing(config.tracing)
  const db = openDatabase(databaseUrl, { connections: databasePool, statementTimeoutMs, pooler: databasePooler })
  const rawPool = new RawPool(databaseUrl, databasePooler)
  const redis = openRequestRedis(config)
  // The queues need a connection without a key prefix: the same one, if it has none.
  const queueRedis = config.redisKeyPrefix === '' ? redis : openRequestRedis(queueAddress(config))
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
  const clock = time ?? clockSkew
  for (const warning of await listRedisWarnings(redis)) log.error(warning)
  const scripts = loadScripts(redis)
  const accounts = new Accounts({ db, redis, scripts, clock, log })
  const metrics = await openMetrics(config, catalog)
  const onSettled = metrics ? (event: UsageEvent) => metrics.recordUsage(event) : undefined
  const admission = new Admission({ scripts, accounts, clock, log, deadlineMs: requestDeadlineMs(config), onSettled })
  const refusalLog = new RefusalLog({ rawPool, clock, log })
  const unknownNames = new UnknownNames({ redis, clock, log }).start()
  const statedCosts = new StatedCosts({ redis, clock, log, metrics: metrics ?? undefined }).start()
  const policies = new Policies(db, redis, config.quotas.testKey, shard => accounts.generations.of(shard).validSince)
  const keyWatch = new KeyWatch({ policies, clock, log })
  const health = new Health(redis, { clock, monotonic })
  const providerPauses = new ProviderPauses({ db, redis, clock, log })
  const reservationFactors = new ReservationFactors({ db, clock, log })
  const upstreams = new Upstreams({ catalog, config, health, pauses: providerPauses, sandbox: createSandbox(), clock })
  const disconnectedCalls = new DisconnectedCalls()
  const learnedQualities = new LearnedQualities({ db, clock, monotonic, log, isOn: config.routingLearning })
  const limiter = new ConcurrencyLimiter({ redis, monotonic, max: config.bulkConcurrency })
  const sealer = new Sealer(config.encryptionKeys)
  const catalogOverrides = new CatalogOverrides(
    { db, clock, log, sealer },
    { catalog, setServers: servers => upstreams.setServers(servers), onChange: changed => metrics?.addNames(changed) },
  )
  await catalogOverrides.start()
  const signingSecret = new SigningSecret(db, config.signingSecrets, sealer)
  const blobs = await openBlobs(config, () => signingSecret.get(), clock, signingSecret.older)
  const files = new Files({ db, blobs, clock, quotas: config.quotas })
  const payloads = new Payloads({ files, blobs, sealer })
  const contents = new Contents({ db, files, blobs, sealer })
  const contentLog = new ContentLog({ contents, db, clock, log })
  const queues = openQueues(queueRedis, config)
  for (const queue of Object.values(queues)) queue.on('error', error => log.warn({ err: error }, 'queue connection'))
  const urlPolicy = { allowPrivate: config.allowPrivateUrls }
  const webhooks = new Webhooks({ db, queue: queues.webhooks, clock })
  const completionSignals = new CompletionSignals(redis)
  const keepAlive = new KeepAlive()
  if (metrics) addProcessGauges(metrics, { admission, health, keepAlive, catalog, clockSkew })
  const mailer = await Mailer.open(config.email, redis, log)
  let closing: Promise<void> | null = null
  const close = async () => {
    const timers = [catalogOverrides, clockSkew, keyWatch, health, providerPauses, reservationFactors, learnedQualities]
    for (const one of [...timers, disconnectedCalls, limiter, completionSignals]) one.close()
    await Promise.all([admission.close(), refusalLog.close(), contentLog.flush(), unknownNames.close()])
    await Promise.all([statedCosts.close(), upstreams.close()])
    await Promise.all(Object.values(queues).map(queue => queue.close()))
    await mailer.close()
    await tracing?.close()
    blobs.close()
    await Promise.all([db.$disconnect(), rawPool.close()])
    redis.disconnect()
    queueRedis.disconnect()
  }
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
    scripts,
    accounts,
    topUps: new TopUps({ db, accounts, clock, log, config }),
    admission,
    refusalLog,
    unknownNames,
    statedCosts,
    policies,
    keyWatch,
    keys: new Keys(db, policies, { clock, maxTestKeys: config.quotas.testKeys }),
    upstreams,
    health,
    providerPauses,
    limiter,
    stickySessions: new StickySessions(redis),
    outputHistory: new OutputHistory(),
    reservationFactors,
    feedback: new Feedback(db, clock),
    learnedQualities,
    keepAlive,
    disconnectedCalls,
    shutdown: new Shutdown(),
    budgets: openBudgets(config),
    urlPolicy,
    sealer,
    signingSecret,
    blobs,
    files,
    queues,
    jobs: new Jobs({
      ...{ db, webhooks, clock, startLeaseMs: startLeaseMs(config) },
      ...{ quotas: config.quotas, marginPpm: config.marginPpm },
    }),
    mediaTasks: new Tasks(queues.media, queueRedis, clockSkew),
    pollSchedule: new PollSchedule(redis),
    delayedJobs: new DelayedJobs({ db, clock }),
    delayedTasks: new Tasks(queues.async, queueRedis, clockSkew),
    webhooks,
    webhookEndpoints: new WebhookEndpoints({ db, sealer, clock, urlPolicy }),
    mailer,
    batches: new Batches({ db, webhooks, clock, quotas: config.quotas }),
    batchJournal: new BatchJournal({ db, rawPool, clock, onBooked: metrics && recordLines(metrics, config) }),
    batchWakes: new BatchWakes(queues.batches),
    responseSettings: new ResponseSettingsReader({ db, monotonic, maxDays: config.responseRetentionDays }),
    storedResponses: new StoredResponses({ db, clock, payloads }),
    responseEvents: new ResponseEvents(redis, completionSignals),
    conversations: new Conversations({ db, clock, payloads }),
    contents,
    contentLog,
    completionSignals,
    suspects: new Suspects(),
    close: () => (closing ??= close()),
  }
}
