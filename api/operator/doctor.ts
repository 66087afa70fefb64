import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { z } from 'zod'
import { type Config, ConfigError, loadConfig } from '../../shared/base/config.ts'
import { readRunningStack } from '../../shared/base/dev-stack.ts'
import { directConnection, proxyName } from '../../shared/base/proxies.ts'
import { type Clock, systemClock } from '../../shared/base/time.ts'
import { type Catalog, CatalogError, loadCatalog } from '../../shared/catalog/catalog.ts'
import { isDrift, listStatedCosts, type StatedCost } from '../../shared/engine/stated-costs.ts'
import { listUnknownNames, type SeenName } from '../../shared/engine/unknown-names.ts'
import { measureSkew, readDatabaseMs, readRedisMs } from '../../shared/io/clock-skew.ts'
import { confirmTimeZone, openDatabase } from '../../shared/io/db.ts'
import { Mailer } from '../../shared/io/mail.ts'
import { listMigrations } from '../../shared/io/migrations.ts'
import { onConnectionError, openRequestRedis, primariesOf, type Redis, waitUntilReady } from '../../shared/io/redis.ts'
import { shardsOf } from '../../shared/io/redis-shards.ts'
import { confirmShards, listRedisWarnings, rejectOnAuthFailure } from '../../shared/io/redis-start.ts'
import { withDeadline } from '../../shared/io/retry.ts'
import { openBlobs } from '../../shared/io/storage/open-blobs.ts'
import { targetOf } from '../../shared/io/tunnel.ts'
import { checkCredentials } from '../../shared/providers/credential-check.ts'
import { isOverdue, readRuns, type TaskRun } from '../../shared/queues/housekeeping.ts'
import { openQueue, queueAddress } from '../../shared/queues/queues.ts'
import { countEvents } from '../../shared/wallet/ledger.ts'
import { startWarnings } from '../start-warnings.ts'
import { examineRotation, type Finding } from './doctor-rotation.ts'
import type { Environment, EnvironmentCommand } from './parse.ts'

export type { Finding }

type Check = (config: Config, clock: Clock, catalog: Catalog) => Promise<Finding[]>

/** Redis and PostgreSQL decide when leases and reservations end; clients see the clocks of the processes. */
const maxClockSkewMs = 2_000
const checkTimeoutMs = 15_000
const connectTimeoutMs = 10_000
/** Deliveries that wait longer than this are not retries of a short outage. */
const maxDeliveryWaitMs = 15 * 60_000

export const doctor: EnvironmentCommand = {
  name: 'doctor',
  summary:
    'Examines an installation: configuration, stores, workers, clocks, storage, email and the providers’ API keys.',
  help: '',
  flags: z.strictObject({}),
  async runAlone(env) {
    const findings = await examine(env)
    const ok = findings.every(({ state }) => state !== 'failed')
    const width = Math.max(...findings.map(({ check }) => check.length))
    const lines = findings.map(({ state, check, detail }) => `${state.padEnd(7)} ${check.padEnd(width)}  ${detail}`)
    return { data: { ok, findings }, text: lines.join('\n'), exitCode: ok ? 0 : 1 }
  },
}

/**
 * Examines an installation: configuration, stores, migrations, clocks, storage, workers, emails, the public address,
 * webhooks and the providers' API keys (one free request each). Never throws: whatever fails is a finding.
 */
export async function examine(env?: Environment, clock: Clock = systemClock): Promise<Finding[]> {
  let config: Config
  let catalog: Catalog
  try {
    config = loadConfig(env)
    catalog = loadCatalog(config.modelCatalog ?? undefined, config.providers, config.readVariable)
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof CatalogError)) throw error
    return error.faults.map(detail => ({ state: 'failed', check: 'configuration', detail }))
  }
  const findings = await Promise.all(
    Object.entries(checks).map(([name, check]) =>
      withDeadline(check(config, clock, catalog), checkTimeoutMs).catch(error => [failed(name, reasonOf(error))]),
    ),
  )
  return [...configurationFindings(config, catalog), ...findings.flat()]
}

function configurationFindings(config: Config, catalog: Catalog): Finding[] {
  const warnings = startWarnings(config, catalog)
  const running = readUnsharedVariables(config)
  if (running)
    warnings.push(
      `the gateway at ${running.address} has ${running.names.join(', ')}, and this command has not: what depends on it is examined without it. Run doctor with the same variables`,
    )
  if (warnings.length === 0) return [ok('configuration', `${config.variables.length} variables`)]
  return warnings.map(detail => warning('configuration', detail))
}

/** What the development stack, whose stores are examined, was started with and this command was not; null if nothing. */
function readUnsharedVariables({ dataDir, variables }: Config): { address: string; names: string[] } | null {
  const running = variables.includes('DATABASE_URL') ? null : readRunningStack(dataDir)
  const names = (running?.variables ?? []).filter(name => !variables.includes(name))
  return running !== null && names.length > 0 ? { address: running.address, names } : null
}

const ok = (check: string, detail: string): Finding => ({ state: 'ok', check, detail })
const warning = (check: string, detail: string): Finding => ({ state: 'warning', check, detail })
const failed = (check: string, detail: string): Finding => ({ state: 'failed', check, detail })

const checks: Record<string, Check> = {
  postgresql: checkPostgres,
  redis: checkRedis,
  storage: checkStorage,
  'public address': checkPublicUrl,
  email: checkEmail,
  providers: checkProviders,
  proxy: checkProxies,
  rotation: examineRotation,
}

async function checkPostgres({ databaseUrl, databasePooler }: Config, clock: Clock): Promise<Finding[]> {
  const db = openDatabase(databaseUrl, {
    connections: 1,
    statementTimeoutMs: 10_000,
    connectTimeoutMs,
    pooler: databasePooler,
  })
  try {
    const [server] = await db.$queryRaw<{ version: string; readonly: boolean; migrated: boolean }[]>`
      SELECT current_setting('server_version') AS version, current_setting('transaction_read_only') = 'on' AS readonly,
        to_regclass('_prisma_migrations') IS NOT NULL AS migrated`
    const skew = skewFinding('postgresql', await measureSkew(() => readDatabaseMs(db), clock))
    await confirmTimeZone(db)
    if (server!.readonly) return [failed('postgresql', 'the server is read-only'), skew]
    const names = await listMigrations(join(import.meta.dirname, '../../prisma/migrations'))
    const applied = server!.migrated
      ? await db.$queryRaw<{ name: string }[]>`
          SELECT migration_name AS name FROM _prisma_migrations WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL`
      : []
    const isApplied = new Set(applied.map(({ name }) => name))
    const pending = names.filter(name => !isApplied.has(name))
    if (pending.length > 0)
      return [
        failed('postgresql', `${pending.length} of ${names.length} migrations are pending: npm run migrate`),
        skew,
      ]
    const [webhooks] = await db.$queryRaw<{ pending: number; oldestMs: number | null }[]>`
      SELECT count(*)::int AS pending, extract(epoch FROM now() - min(created_at))::float8 * 1000 AS "oldestMs"
      FROM webhook_deliveries WHERE status = 'pending'`
    return [
      ok('postgresql', `version ${server!.version}, ${names.length} migrations`),
      skew,
      webhooksFinding(webhooks!.pending, webhooks!.oldestMs ?? 0),
    ]
  } finally {
    await db.$disconnect()
  }
}

function webhooksFinding(pending: number, oldestMs: number): Finding {
  if (pending === 0) return ok('webhooks', 'no delivery is pending')
  const detail = `${pending} deliveries are pending, the oldest for ${Math.ceil(oldestMs / 60_000)} min`
  return oldestMs > maxDeliveryWaitMs ? warning('webhooks', detail) : ok('webhooks', detail)
}

async function checkRedis(config: Config, clock: Clock): Promise<Finding[]> {
  const redis = openRequestRedis(config)
  onConnectionError(redis, () => {}) // The command under way fails with it.
  try {
    await Promise.race([waitUntilReady(redis, connectTimeoutMs), rejectOnAuthFailure(redis)])
    await confirmShards(redis)
    const skews: Finding[] = []
    for (const server of primariesOf(redis)) {
      skews.push(skewFinding('redis', await measureSkew(() => readRedisMs(server), clock)))
    }
    const warnings = (await listRedisWarnings(redis)).map(detail => warning('redis', detail))
    return [
      ...(warnings.length > 0 ? warnings : [ok('redis', await describeRedis(redis))]),
      skews.find(({ state }) => state !== 'ok') ?? skews[0]!,
      await workersFinding(redis, config),
      housekeepingFinding(await readRuns(redis), await readRedisMs(primariesOf(redis)[0]!)),
      ...unknownFindings(await listUnknownNames(redis)),
      ...priceFindings(await listStatedCosts(redis)),
    ]
  } finally {
    redis.disconnect()
  }
}

const maxShownNames = 10

/** What requests have that the gateway does not know: a newer client is in use. What is not sent may be missed. */
function unknownFindings(names: readonly SeenName[]): Finding[] {
  const unsent = names.filter(({ kind }) => kind === 'field' || kind === 'header')
  const passed = names.filter(({ kind }) => kind === 'beta' || kind === 'nested')
  const listed = (found: readonly SeenName[]) => {
    const shown = found.slice(0, maxShownNames).map(({ name, count }) => `${name} (${count})`)
    return [...shown, ...(found.length > maxShownNames ? [`${found.length - maxShownNames} more`] : [])].join(', ')
  }
  return [
    ...(unsent.length > 0
      ? [warning('unknown fields', `not sent to providers: ${listed(unsent)}; see PASS_UNKNOWN_FIELDS`)]
      : []),
    ...(passed.length > 0 ? [ok('unknown fields', `sent to providers as they are: ${listed(passed)}`)] : []),
  ]
}

/** Rows whose provider states another cost than their prices: charges follow it, but estimates and reservations do not. */
function priceFindings(costs: readonly StatedCost[]): Finding[] {
  return costs.filter(isDrift).map(({ provider, model, calls, listedNano, statedNano }) => {
    const factor = listedNano > 0 ? `${(statedNano / listedNano).toFixed(2)} times` : 'more than'
    const detail = `${provider} states ${factor} the cost by the catalog for ${model} (${Math.round(calls)} calls)`
    return warning('prices', `${detail}: correct its row in MODEL_CATALOG`)
  })
}

async function describeRedis(redis: Redis): Promise<string> {
  const servers = primariesOf(redis)
  const { length: shards } = shardsOf(redis).all
  const info = await servers[0]!.info('server').catch(() => '')
  const version = /^redis_version:(\S+)/m.exec(info)?.[1] ?? 'unknown'
  const cluster = shardsOf(redis).isTagged ? `, ${shards} shards on ${servers.length} primaries` : ''
  return `version ${version}, evicts nothing${cluster}`
}

async function workersFinding(redis: Redis, config: Config): Promise<Finding> {
  const { waiting } = await countEvents(redis)
  const backlog = `${waiting} usage events are waiting to be booked`
  const connection = openRequestRedis(queueAddress(config))
  connection.on('error', () => {})
  try {
    await waitUntilReady(connection, connectTimeoutMs)
    const workers = await openQueue('maintenance', connection, config).getWorkersCount()
    return workers === 0
      ? failed('workers', `no worker is running: nothing is booked and no job runs; ${backlog}`)
      : ok('workers', `${workers} running, ${backlog}`)
  } finally {
    connection.disconnect()
  }
}

function housekeepingFinding(runs: readonly TaskRun[], nowMs: number): Finding {
  const overdue = runs
    .filter(run => isOverdue(run, nowMs))
    .map(({ task, lastMs }) => {
      return lastMs === null
        ? `${task} (never ran)`
        : `${task} (last ran ${new Date(lastMs).toISOString().slice(0, 19)}Z)`
    })
  const missing = runs.filter(run => run.lastMs === null && !isOverdue(run, nowMs)).map(({ task }) => task)
  if (overdue.length > 0) return failed('housekeeping', `overdue: ${overdue.join(', ')}`)
  if (missing.length > 0) return warning('housekeeping', `not run yet: ${missing.join(', ')}`)
  return ok('housekeeping', `${runs.length} tasks run in time`)
}

function skewFinding(store: string, aheadMs: number): Finding {
  const skewMs = Math.abs(aheadMs)
  const detail = `${skewMs} ms between this machine and ${store}`
  return skewMs > maxClockSkewMs ? warning('clocks', `${detail}: synchronise them by NTP`) : ok('clocks', detail)
}

async function checkStorage(config: Config, clock: Clock): Promise<Finding[]> {
  const blobs = await openBlobs(config, async () => '', clock)
  try {
    await blobs.check()
    const isFolder = config.storageUrl.startsWith('file:')
    return [ok('storage', isFolder ? 'a folder: web and worker processes must share it' : 'the bucket is accessible')]
  } finally {
    blobs.close()
  }
}

async function checkPublicUrl({ publicUrl, publicUrlIsSet }: Config): Promise<Finding[]> {
  if (!publicUrlIsSet) return []
  const response = await fetch(`${publicUrl}/healthz`, {
    signal: AbortSignal.timeout(checkTimeoutMs),
    redirect: 'manual',
  })
  const body = await response.json().catch(() => null)
  return response.ok && (body as { status?: unknown } | null)?.status === 'ok'
    ? [ok('public address', `${publicUrl} leads to a gateway`)]
    : [failed('public address', `${publicUrl}/healthz answers HTTP ${response.status}, and not as a gateway does`)]
}

async function checkEmail(config: Config): Promise<Finding[]> {
  if (config.email.smtpUrl === null) return []
  await Mailer.verify(config.email.smtpUrl, checkTimeoutMs)
  return [ok('email', 'the mail server accepts the sender')]
}

/** Whether the proxies can be connected to; whether they let requests to the providers through shows in the providers' findings. */
async function checkProxies({ proxies, providers }: Config): Promise<Finding[]> {
  const own = [...providers.values()].map(({ proxy }) => proxy).filter(proxy => proxy !== directConnection)
  const all = new Set([proxies.https, proxies.http, ...own].filter(proxy => proxy !== null))
  return Promise.all(
    [...all].map(async proxy => {
      const name = proxyName(proxy)
      const socket = connect(targetOf(new URL(proxy)))
      try {
        await once(socket, 'connect', { signal: AbortSignal.timeout(connectTimeoutMs) })
        return ok('proxy', `${name} can be connected to`)
      } catch (error) {
        return failed('proxy', `${name} cannot be connected to: ${reasonOf(error)}`)
      } finally {
        socket.destroy()
      }
    }),
  )
}

async function checkProviders(config: Config, clock: Clock, catalog: Catalog): Promise<Finding[]> {
  const reports = await checkCredentials(catalog, config, clock)
  if (reports.length === 0) {
    const key = readUnsharedVariables(config)?.names.find(name => name.endsWith('_API_KEY'))
    return key === undefined
      ? [failed('providers', 'no provider has a key: set OPENAI_API_KEY, for example')]
      : [warning('providers', `not examined: the running gateway has ${key}, and this command has not`)]
  }
  return reports.map(({ provider, label, origin, outcome, reason }) => {
    const check = `provider ${provider}`
    if (outcome === 'accepted') return ok(check, `key ${label} is accepted`)
    if (outcome === 'unknown') return ok(check, `key ${label} is set; there is no free request to check it with`)
    return failed(check, `key ${label} of ${origin}: ${reason}`)
  })
}

function reasonOf(error: unknown): string {
  const { message, errors, cause } = error as AggregateError
  const inner = errors?.map(({ message }) => message).join('; ') || (cause as Error | undefined)?.message
  const reason = [message, inner].filter(Boolean).join(': ').trim().split('\n').at(-1)!.trim()
  return /unsupported startup parameter/.test(reason)
    ? `${reason}. DATABASE_URL leads to a pooler: set DATABASE_POOLER=true`
    : reason
}
