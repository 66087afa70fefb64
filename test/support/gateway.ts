import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createApp } from '../../api/app.ts'
import { createHttpServer } from '../../api/http-server.ts'
import { directDispatch } from '../../api/request-lifecycle.ts'
import { fixedPathEndpoints } from '../../api/route-table.ts'
import { UpgradeServer } from '../../api/sockets/upgrade.ts'
import { freePort } from '../../dev/ports.ts'
import { loadConfig } from '../../shared/base/config.ts'
import { newId } from '../../shared/base/ids.ts'
import { nanoFromUsd } from '../../shared/base/money.ts'
import type { Clock, MonotonicClock } from '../../shared/base/time.ts'
import type { Prisma } from '../../shared/generated/prisma/client.ts'
import { changesBetween, operatorActor } from '../../shared/io/audit.ts'
import { createLog } from '../../shared/io/log.ts'
import { openWorkerRedis } from '../../shared/io/redis.ts'
import { newKey } from '../../shared/keys/key-requests.ts'
import { settings } from '../../shared/keys/keys.ts'
import { newSecret } from '../../shared/keys/secret.ts'
import { openServices, type Services } from '../../shared/open-services.ts'
import { checkLedger } from '../../shared/wallet/check.ts'
import { countEvents } from '../../shared/wallet/ledger.ts'
import { maintainPartitions } from '../../shared/wallet/partitions.ts'
import { LedgerWorker } from '../../workers/ledger.ts'
import { monotonicOf } from './clocks/monotonic.ts'
import { PreparingReader } from './preparing-reader.ts'
import { freshDatabase, freshRedis, inherited, shortLived } from './stack.ts'

const root = join(import.meta.dirname, '../..')

export type Stores = { databaseUrl: string; redisUrl: string; drop(): Promise<void> }

/** Tests send more requests with a test key than its limits allow. */
const unlimited = {
  TEST_KEY_RPM: '0',
  TEST_KEY_TPM: '0',
  JOB_HOLD_BACK_1H_SECONDS: '0',
  JOB_HOLD_BACK_6H_SECONDS: '0',
}

/** A migrated database and a Redis database of one test file's own. */
export async function freshStores(): Promise<Stores> {
  const [database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  return {
    databaseUrl: database.url,
    redisUrl: redis.url,
    drop: async () => {
      await Promise.all([database.drop(), redis.release()])
    },
  }
}

export type KeyOptions = Omit<Partial<(typeof newKey)['_zod']['input']>, 'environment'>
export type Account = { organisationId: string; live: string; test: string }

/** A gateway in this process: the real application and the real ledger worker over the given stores. */
export type Gateway = {
  url: string
  services: Services
  door: UpgradeServer
  /** Creates an organisation with credits and its first live and test key. */
  account(options?: KeyOptions & { usd?: string }): Promise<Account>
  key(organisationId: string, environment: 'live' | 'test', options?: KeyOptions): Promise<string>
  fetch(
    path: string,
    options?: { key?: string; body?: unknown; method?: string; headers?: Record<string, string>; signal?: AbortSignal },
  ): Promise<Response>
  /** Waits until everything settled is booked in Postgres; then the breaches of the money invariants (none is right). */
  settled(): Promise<string[]>
  /** May be called again: by a test that closes it in the middle, and by its teardown. */
  close(): Promise<void>
}

/**
 * How long gateways in this process wait for the tests' own stores, which are always there: tests that have many of them on a
 * busy machine do not fail for the seconds after which a request gives up.
 */
const patientMs = 60_000

/** Patience for each store that is one of the tests' own, and reached directly: not one that a test stops, nor through a proxy. */
function patienceWith({ databaseUrl, redisUrl }: Stores) {
  const { TEST_DATABASE_URL: database = '', TEST_REDIS_URL: redis = '' } = process.env
  const waitMs = (url: string, server: string) => (server && url.startsWith(`${server}/`) ? patientMs : undefined)
  return {
    connectTimeoutMs: waitMs(databaseUrl, database.slice(0, database.lastIndexOf('/'))),
    redisTimeoutMs: waitMs(redisUrl, redis),
  }
}

/**
 * `env` adds configuration, e.g. OPENAI_API_KEY and OPENAI_BASE_URL of an emulator. Its PUBLIC_URL is its own address, its
 * storage a folder that goes when it closes. When a test's `clock` is advanced, time passes, unless it has a `monotonic`
 * clock as well: then its dates change, as when the clock of a machine is set.
 */
export async function startGateway(
  stores: Stores,
  env: Record<string, string> = {},
  clock: Clock | null = null,
  monotonic: MonotonicClock = monotonicOf(clock),
): Promise<Gateway> {
  let handle: RequestListener | undefined
  const { server } = createHttpServer(
    { keepAliveTimeoutMs: 75_000, maxConnections: 10_000, trustedProxies: 1 },
    (request, response) => handle?.(request, response),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const storage = await mkdtemp(join(tmpdir(), 'headgate-storage-'))
  const config = loadConfig({
    DATABASE_URL: stores.databaseUrl,
    REDIS_URL: stores.redisUrl,
    LOG_LEVEL: 'silent',
    DATABASE_POOL: '5',
    STORAGE_URL: `file:${storage}`,
    TRUSTED_PROXIES: '1',
    // By default it depends on the memory of the machine.
    MAX_BODY_MIB_IN_FLIGHT: '128',
    ...unlimited,
    ...env,
    // "http://localhost:0" is its own address under that name: browsers have passkeys there.
    PUBLIC_URL: env.PUBLIC_URL?.replace(/:0$/, `:${new URL(url).port}`) ?? url,
  })
  const options = { clock: clock ?? undefined, monotonic, ...patienceWith(stores) }
  const services = await openServices(config, createLog(config.logLevel), options)
  await services.admission.start()
  const { health, providerPauses, reservationFactors } = services
  await Promise.all([health, providerPauses, reservationFactors].map(service => service.start()))
  await maintainPartitions(services.db, services.clock.now(), config.generationRetentionMonths)
  const blocking = openWorkerRedis(config)
  blocking.on('error', () => {}) // It reconnects automatically.
  const blockingId = await blocking.client('ID')
  const ledger = new LedgerWorker(services, blocking)
  ledger.start()
  handle = directDispatch(services, createApp(services).callback(), fixedPathEndpoints('POST')!)
  const ledgerReader = new PreparingReader(services.db, stores.databaseUrl)
  const door = new UpgradeServer(services)
  server.on('upgrade', (request, socket, head) => void door.upgrade(request, socket, head))
  const close = async () => {
    door.close()
    server.closeAllConnections()
    server.close()
    const stopped = ledger.stop()
    // Ends its wait for more events at once. A Redis that is away ends it, too.
    await services.redis.client('UNBLOCK', blockingId).catch(() => {})
    await stopped
    await ledgerReader.close()
    await services.close()
    blocking.disconnect()
    await rm(storage, { recursive: true, force: true })
  }
  let closed: Promise<void> | undefined
  return {
    url,
    services,
    door,
    key: (organisationId, environment, options) => createKey(services, organisationId, environment, options),
    account: options => createAccount(services, options),
    fetch: (path, options) => call(url, path, options),
    settled: shareNext(async () => {
      await services.admission.flush()
      await untilBooked(services)
      const invariants = await checkLedger(ledgerReader.db, services.redis, services.clock.now())
      return invariants.flatMap(({ name, breaches }) => breaches.map(breach => `${name}: ${breach}`))
    }),
    close() {
      closed ??= close()
      return closed
    },
  }
}

/**
 * Runs something once at a time, for all who asked before it began: the ledger's check reads what all tests of a gateway booked, and
 * tests that run beside each other ask for many.
 */
function shareNext<T>(run: () => Promise<T>): () => Promise<T> {
  let current: Promise<unknown> = Promise.resolve()
  let next: Promise<T> | null = null
  const begin = () => {
    next = null
    const begun = run()
    current = begun
    return begun
  }
  return () => {
    next ??= current.then(begin, begin)
    return next
  }
}

/**
 * Creates an organisation with credits and its first live and test key. Tests create thousands: unless the keys have options, all
 * is written as the services would write it, but in 3 statements where these send 16.
 */
export async function createAccount(
  services: Services,
  { usd = '25', ...options }: KeyOptions & { usd?: string } = {},
): Promise<Account> {
  const organisationId = newId('org')
  await createOrganisation(services, organisationId, nanoFromUsd(usd))
  if (Object.keys(options).length === 0)
    return { organisationId, ...(await createDefaultKeys(services, organisationId)) }
  const [live, test] = await Promise.all([
    createKey(services, organisationId, 'live', options),
    createKey(services, organisationId, 'test', options),
  ])
  return { organisationId, live, test }
}

/** Creates an organisation and its wallet, with a deposit unless that is nothing. */
async function createOrganisation({ db, clock, wallets }: Services, id: string, nano: bigint): Promise<void> {
  const version = nano > 0n ? 1n : 0n
  await db.$executeRaw`
    WITH organisation AS (
      INSERT INTO organisations (id, name, slug) VALUES (${id}, 'Test organisation', ${randomUUID()}) RETURNING id
    ), wallet AS (
      INSERT INTO wallets (organisation_id, balance_nano, version) SELECT id, ${nano}, ${version} FROM organisation
    ) INSERT INTO ledger_entries (organisation_id, kind, amount_nano, method, cause, created_at)
      SELECT id, 'deposit', ${nano}, 'grant', ${`deposit:${newId('dep')}`}, ${new Date(clock.now())}
      FROM organisation WHERE ${nano > 0n}`
  if (nano > 0n) await wallets.install(id).catch(() => {})
}

async function createDefaultKeys({ db }: Services, organisationId: string): Promise<Pick<Account, 'live' | 'test'>> {
  const secrets = { live: newSecret('svc_sk_live_'), test: newSecret('svc_sk_test_') }
  const data = Object.entries(secrets).map(([environment, { secret: _, ...stored }]) => ({
    ...stored,
    id: newId('key'),
    organisationId,
    name: `${environment} key`,
    environment: environment as keyof typeof secrets,
  }))
  const keys = await db.apiKey.createManyAndReturn({ data })
  const events = keys.map(key => ({
    id: newId('aud'),
    organisationId,
    actorKind: operatorActor.kind,
    actorName: operatorActor.name,
    action: 'key.created',
    targetId: key.id,
    targetName: key.name,
    changes: changesBetween({}, settings(key)) as Prisma.InputJsonObject,
  }))
  await db.auditEvent.createMany({ data: events })
  return { live: secrets.live.secret, test: secrets.test.secret }
}

async function createKey(
  services: Services,
  organisationId: string,
  environment: 'live' | 'test',
  options: KeyOptions = {},
): Promise<string> {
  const { secret } = await services.keys.create(
    organisationId,
    newKey.parse({ ...options, environment }),
    operatorActor,
  )
  return secret
}

export async function call(
  base: string,
  path: string,
  { key, body, method, headers = {}, signal }: Parameters<Gateway['fetch']>[1] = {},
): Promise<Response> {
  return fetch(base + path, {
    method: method ?? (body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(key && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    ...(signal && { signal }),
  })
}

/** Waits until no usage event is left on the stream. */
export async function untilBooked({ redis }: Pick<Services, 'redis'>, withinMs = 60_000): Promise<void> {
  await eventually(async () => (await countEvents(redis)).waiting === 0, 'every usage event is booked', withinMs)
}

const minPollMs = 10
const maxPollMs = 100

/**
 * Polls until a condition holds, the more rarely the longer it takes: many tests wait at once. Throws when it does not hold
 * within `withinMs`, which is far beyond what it should take.
 */
export async function eventually(
  condition: () => boolean | Promise<boolean>,
  what: string,
  withinMs = 60_000,
): Promise<void> {
  const startMs = Date.now()
  while (!(await condition())) {
    const waitedMs = Date.now() - startMs
    if (waitedMs > withinMs) throw new Error(`waited ${withinMs} ms in vain until ${what}`)
    await sleep(Math.min(Math.max(waitedMs / 10, minPollMs), maxPollMs))
  }
}

/** Far beyond what a start takes, also on a machine that has ten times as much to do as it can. */
const maxStartMs = 90_000

/** A web or worker process of its own, to be killed. */
export type Process = {
  child: ChildProcess
  url: string
  output(): string
  kill(signal?: NodeJS.Signals): Promise<void>
}

/** Starts `api/server.ts` or `workers/main.ts` as in production and waits until it is up. */
export async function startProcess(
  what: 'web' | 'worker',
  stores: Pick<Stores, 'databaseUrl' | 'redisUrl'>,
  env: Record<string, string> = {},
  { ipc = false, folder = root } = {},
): Promise<Process> {
  const port = what === 'web' ? (env.PORT ?? String(await freePort())) : '0'
  const url = `http://127.0.0.1:${port}`
  const child = spawn(process.execPath, [...shortLived, what === 'web' ? 'api/server.ts' : 'workers/main.ts'], {
    cwd: folder,
    env: {
      ...inherited,
      DATABASE_URL: stores.databaseUrl,
      REDIS_URL: stores.redisUrl,
      STORAGE_URL: `file:${join(tmpdir(), 'headgate-storage')}`,
      ...(what === 'web' && { PUBLIC_URL: url }),
      PORT: port,
      HOST: '127.0.0.1',
      LOG_LEVEL: 'info',
      SHUTDOWN_DRAIN_MS: '0',
      ...unlimited,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe', ...(ipc ? (['ipc'] as const) : [])],
  })
  let output = ''
  for (const stream of [child.stdout!, child.stderr!]) {
    stream.on('data', part => {
      output = (output + part).slice(-200_000)
    })
  }
  const exited = once(child, 'exit')
  await eventually(
    async () => {
      if (child.exitCode !== null) throw new Error(`${what} ended at start`)
      return what === 'web'
        ? fetch(`${url}/readyz`).then(
            response => response.ok,
            () => false,
          )
        : output.includes('"working"')
    },
    `${what} is up`,
    maxStartMs,
  ).catch(error => {
    child.kill('SIGKILL')
    throw new Error(`${error.message}: ${output}`)
  })
  return {
    child,
    url,
    output: () => output,
    async kill(signal = 'SIGKILL') {
      child.kill(signal)
      await exited
    },
  }
}
