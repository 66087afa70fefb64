import { type Config, ConfigError } from './base/config.ts'
import { Shutdown } from './base/shutdown.ts'
import { type Clock, systemClock } from './base/time.ts'
import { type Catalog, CatalogError, loadCatalog } from './catalog/catalog.ts'
import { Departures } from './chat/departures.ts'
import { KeepAlive } from './chat/keep-alive.ts'
import { Sessions } from './chat/sessions.ts'
import type { Blobs } from './io/blobs.ts'
import { Bulk } from './io/bulk.ts'
import { ByteBudget } from './io/byte-budget.ts'
import { type Database, openDatabase } from './io/db.ts'
import type { Logger } from './io/log.ts'
import { Mailer } from './io/mail.ts'
import { openBlobs } from './io/open-blobs.ts'
import { openProducer, type Redis, ready } from './io/redis.ts'
import { evictionWarning, refused } from './io/redis-start.ts'
import type { Door } from './io/safe-url.ts'
import { BatchJournal } from './jobs/batch-journal.ts'
import { BatchWakes } from './jobs/batch-wakes.ts'
import { Batches } from './jobs/batches.ts'
import { DelayedJobs } from './jobs/delayed.ts'
import { Endings } from './jobs/endings.ts'
import { Files } from './jobs/files.ts'
import { Jobs } from './jobs/jobs.ts'
import { openQueues, type Queues } from './jobs/queues.ts'
import { Suspects } from './jobs/suspects.ts'
import { type DelayedTask, type MediaTask, Tasks } from './jobs/tasks.ts'
import { Watch } from './jobs/watch.ts'
import { Webhooks } from './jobs/webhooks.ts'
import { KeyWatch } from './keys/key-watch.ts'
import { Keys } from './keys/keys.ts'
import { Policies } from './keys/policies.ts'
import { Sealer } from './keys/sealer.ts'
import { SigningSecret } from './keys/signing-secret.ts'
import { TopUps } from './payments/top-ups.ts'
import { Health } from './providers/health.ts'
import { Lanes } from './providers/lanes.ts'
import { createSandbox } from './providers/sandbox/upstream.ts'
import { Upstreams } from './providers/upstreams.ts'
import { Accounts } from './wallet/accounts.ts'
import { Admission } from './wallet/admission.ts'
import { loadScripts, type Scripts } from './wallet/scripts.ts'

/** Reports of providers and sign-ins have kilobytes, and nobody knows who sends them. */
const mostPublicBodyBytes = 16 * 1024 * 1024

/** Everything that is alive, opened once per process. */
export type Services = {
  config: Config
  clock: Clock
  log: Logger
  catalog: Catalog
  db: Database
  bulk: Bulk
  redis: Redis
  scripts: Scripts
  accounts: Accounts
  topUps: TopUps
  admission: Admission
  policies: Policies
  keyWatch: KeyWatch
  keys: Keys
  upstreams: Upstreams
  health: Health
  lanes: Lanes
  sessions: Sessions
  keepAlive: KeepAlive
  departures: Departures
  shutdown: Shutdown
  /** What requests may hold of the process's memory: bodies of known callers, of anybody else, and whole answers. */
  budgets: { bodies: ByteBudget; publicBodies: ByteBudget; answers: ByteBudget }
  /** What URLs from outside are held to. */
  door: Door
  sealer: Sealer
  signingSecret: SigningSecret
  blobs: Blobs
  files: Files
  queues: Queues
  jobs: Jobs
  tasks: Tasks<MediaTask>
  watch: Watch
  delayed: DelayedJobs
  delayedTasks: Tasks<DelayedTask>
  webhooks: Webhooks
  mailer: Mailer
  batches: Batches
  batchJournal: BatchJournal
  batchWakes: BatchWakes
  endings: Endings
  suspects: Suspects
  /** Settles what is open and closes every connection; idempotent. */
  close(): Promise<void>
}

/** A request must be answered within ten seconds, also where PostgreSQL never answers. */
const requestStatementMs = 6_000
/** For work that no client waits for. */
export const backgroundStatementMs = 30_000

/**
 * Opens the services. `statementTimeoutMs` is the longest that a statement may take. Throws a ConfigError when the model catalog
 * is at fault, and an Error when Redis cannot be reached.
 */
export async function openServices(
  config: Config,
  log: Logger,
  clock: Clock = systemClock,
  statementTimeoutMs = requestStatementMs,
): Promise<Services> {
  const catalog = catalogOf(config)
  const db = openDatabase(config.databaseUrl, { connections: config.databasePool, statementTimeoutMs })
  const bulk = new Bulk(config.databaseUrl)
  const redis = openProducer(config)
  redis.on('error', error => log.warn({ err: error }, 'Redis connection'))
  // `$connect` asks no server: it loads the query compiler, which no request should have to wait for.
  await Promise.all([Promise.race([ready(redis, 10_000), refused(redis)]), db.$connect()])
  const eviction = await evictionWarning(redis)
  if (eviction) log.error(eviction)
  const scripts = loadScripts(redis)
  const accounts = new Accounts({ db, redis, scripts, clock })
  const admission = new Admission({ scripts, accounts, clock, log, deadlineMs: deadlineOf(config) })
  const policies = new Policies(db, redis, config.quotas.testKey)
  const keyWatch = new KeyWatch({ policies, clock, log })
  const health = new Health(redis, clock)
  const upstreams = new Upstreams({ catalog, config, health, sandbox: createSandbox(), clock })
  const departures = new Departures()
  const lanes = new Lanes({ redis, clock, most: config.bulkConcurrency })
  const sealer = new Sealer(config.encryptionKeys)
  const signingSecret = new SigningSecret(db, config.signingSecret, sealer)
  const blobs = await openBlobs(config, () => signingSecret.get(), clock)
  const queues = openQueues(redis)
  for (const queue of Object.values(queues)) queue.on('error', error => log.warn({ err: error }, 'queue connection'))
  const webhooks = new Webhooks({ db, queue: queues.webhooks, clock })
  const endings = new Endings(redis)
  const mailer = await Mailer.open(config.email, redis, log)
  let closing: Promise<void> | null = null
  const close = async () => {
    departures.close()
    keyWatch.close()
    health.close()
    lanes.close()
    endings.close()
    await admission.close()
    await upstreams.close()
    await Promise.all(Object.values(queues).map(queue => queue.close()))
    await mailer.close()
    blobs.close()
    await Promise.all([db.$disconnect(), bulk.close()])
    redis.disconnect()
  }
  return {
    config,
    clock,
    log,
    catalog,
    db,
    bulk,
    redis,
    scripts,
    accounts,
    topUps: new TopUps({ db, accounts, clock, log, config }),
    admission,
    policies,
    keyWatch,
    keys: new Keys(db, policies, clock),
    upstreams,
    health,
    lanes,
    sessions: new Sessions(redis),
    keepAlive: new KeepAlive(),
    departures,
    shutdown: new Shutdown(),
    budgets: {
      bodies: new ByteBudget(config.maxBodyBytes, 'request bodies'),
      publicBodies: new ByteBudget(mostPublicBodyBytes, 'request bodies'),
      answers: new ByteBudget(config.maxAnswerBytes, 'answers'),
    },
    door: { allowPrivate: config.allowPrivateUrls },
    sealer,
    signingSecret,
    blobs,
    files: new Files({ db, blobs, clock, quotas: config.quotas }),
    queues,
    jobs: new Jobs({ db, webhooks, clock, startLeaseMs: startLeaseOf(config), quotas: config.quotas }),
    tasks: new Tasks(queues.media, redis),
    watch: new Watch(redis),
    delayed: new DelayedJobs({ db, clock }),
    delayedTasks: new Tasks(queues.async, redis),
    webhooks,
    mailer,
    batches: new Batches({ db, webhooks, clock, quotas: config.quotas }),
    batchJournal: new BatchJournal({ db, bulk }),
    batchWakes: new BatchWakes(queues.batches),
    endings,
    suspects: new Suspects(),
    close: () => (closing ??= close()),
  }
}

const leewayMs = 5 * 60_000

/** Longer than the slowest request can take: its last call begins when its patience ends, and uses up the whole time-out. */
function deadlineOf({ upstream, patience }: Config): number {
  return patience.budgetMs + upstream.totalTimeoutMs + leewayMs
}

const startLeewayMs = 15_000

/** Longer than the one request of a start can take, with its files read and its answer saved. */
function startLeaseOf({ upstream }: Config): number {
  return upstream.connectTimeoutMs + upstream.firstByteTimeoutMs + upstream.idleTimeoutMs + startLeewayMs
}

function catalogOf(config: Config): Catalog {
  try {
    return loadCatalog(config.modelCatalog ?? undefined)
  } catch (error) {
    if (error instanceof CatalogError) throw new ConfigError(error.faults.map(fault => `MODEL_CATALOG: ${fault}`))
    throw error
  }
}
