import { shardsOf } from '../io/redis-shards.ts'
import type { Platform } from '../platform.ts'
import { type LastError, type ReportedHealth, readHealth } from '../providers/health-report.ts'
import { maxBacklog } from '../wallet/admission.ts'
import { countEvents } from '../wallet/ledger.ts'
import { sumUsage } from '../wallet/usage-query.ts'
import { type Condition, reconcileIncidents, recordPast } from './incidents.ts'

/** A circuit that opened and closed between two looks is seen for this long. */
const flapMs = 15_000
/** Three missed heartbeats. The sweep forgets a dead process a few seconds later. */
const silentMs = 10_000
/** A refused key is not called for a minute: whether it is accepted again is known after that. */
const refusedMs = 90_000
const burstMs = 5 * 60_000
const minFailed = 5
/** At least one in this many requests failed. */
const maxRequestsPerFailure = 4
const maxProviders = 100
/** Without a look for this long, no worker was running. */
const maxGapMs = 60_000
const lookedKey = 'incidents:looked'

/** Records what is wrong with providers, processes and the ledger's backlog, as Redis has it. */
export async function watchStores(services: Platform): Promise<void> {
  await noteGap(services)
  await services.providerPauses.expire()
  const [{ nowMs, reports }, silent, backlog, pauses] = await Promise.all([
    readHealth(services.redis),
    listSilent(services),
    backlogOf(services),
    services.providerPauses.list(),
  ])
  // Times in Redis are those of its own clock.
  const offsetMs = nowMs - services.clock.now()
  const conditions = reports.flatMap(report => [...circuitOf(report, nowMs), ...keyOf(report, nowMs)])
  const paused = pauses.map(
    ({ provider, reason, pausedBy, pausedAt, pausedUntil }): Condition => ({
      kind: 'paused',
      subject: provider,
      provider,
      sinceMs: pausedAt.getTime(),
      message: `Paused by ${pausedBy}${pausedUntil ? ` until ${pausedUntil.toISOString()}` : ''}${reason ? `: ${reason}` : ''}`,
    }),
  )
  const local = conditions.map(({ sinceMs = nowMs, ...condition }) => ({ ...condition, sinceMs: sinceMs - offsetMs }))
  const kinds = ['circuit', 'key', 'paused', 'instance', 'backlog', 'refused_events'] as const
  await reconcileIncidents(services, kinds, [...local, ...paused, ...silent, ...backlog])
}

/** Records a gap between checks: no worker was running, or none that could reach Redis. */
async function noteGap(services: Platform): Promise<void> {
  const nowMs = services.clock.now()
  const last = Number(await services.redis.set(lookedKey, String(nowMs), 'GET'))
  if (!last || nowMs - last < maxGapMs) return
  const message = 'Nothing was booked and no job ran.'
  await recordPast(services, { kind: 'no_worker', subject: '', message }, last, nowMs)
}

function circuitOf({ provider, model, key, circuit, openedMs, lastError }: ReportedHealth, nowMs: number): Condition[] {
  const isRecent = openedMs !== null && nowMs - openedMs < flapMs
  if (model === null || key !== null || (circuit === 'closed' && !isRecent)) return []
  return [
    {
      kind: 'circuit',
      subject: `${provider}|${model}`,
      provider,
      model,
      message: lastError && textOf(lastError),
      sinceMs: openedMs ?? nowMs,
    },
  ]
}

/** A key's own refusals, or those of a provider's only key, which count as failures of what was called. */
function keyOf({ provider, lastError }: ReportedHealth, nowMs: number): Condition[] {
  if (lastError === null || (lastError.reason !== 'auth' && lastError.reason !== 'quota')) return []
  if (lastError.recoveredMs !== null || nowMs - lastError.atMs > refusedMs) return []
  const { key, sinceMs } = lastError
  return [{ kind: 'key', subject: `${provider}|${key}`, provider, message: textOf(lastError), sinceMs }]
}

/** "HTTP 500: The server had an error." */
function textOf({ reason, status, message }: Pick<LastError, 'reason' | 'status' | 'message'>): string {
  const plain = status === null ? reason.replaceAll('_', ' ') : `HTTP ${status}`
  // A wrong base URL and a wrong model look the same.
  const kind = status === 404 ? `${plain} (the base URL or the model is unknown there)` : plain
  return message ? `${kind}: ${message}` : kind
}

async function listSilent({ redis }: Platform): Promise<Condition[]> {
  // Heartbeats use the Redis server's clock; a process that ended by itself has none.
  const [seconds] = await redis.time()
  const range = ['(0', Number(seconds) * 1_000 - silentMs] as const
  // Processes are registered in every shard.
  const { tag } = shardsOf(redis).all[0]!
  const found = await redis.zrangebyscore(`${tag}instances`, ...range, 'LIMIT', 0, 100)
  return found.map(id => ({
    kind: 'instance',
    subject: id,
    message: 'No heartbeat. What it had reserved is released.',
  }))
}

async function backlogOf({ redis }: Platform): Promise<Condition[]> {
  const { waiting, refused } = await countEvents(redis)
  const conditions: Condition[] = []
  if (waiting >= maxBacklog / 2) {
    const message = `${waiting} usage events are unbooked. At ${maxBacklog}, requests are refused with 503.`
    conditions.push({ kind: 'backlog', subject: '', message })
  }
  if (refused > 0) conditions.push({ kind: 'refused_events', subject: '', message: `${refused} usage events` })
  return conditions
}

/** Records the providers at which many requests of the last minutes failed. */
export async function watchFailures(services: Platform): Promise<void> {
  const { db, clock } = services
  const nowMs = clock.now()
  const filter = {
    organisationId: null,
    environment: 'live',
    from: new Date(nowMs - burstMs),
    to: new Date(nowMs),
  } as const
  const { rows } = await sumUsage(db, filter, {
    step: null,
    source: 'log',
    by: ['provider'],
    order: 'errors',
    durations: false,
    limit: maxProviders,
  })
  const failing = rows.filter(
    ({ requests, outcomes: { failed } }) => failed >= minFailed && failed * maxRequestsPerFailure >= requests,
  )
  const conditions = failing.map(({ groups: [provider = ''], requests, outcomes: { failed } }): Condition => {
    const message = `${failed} of ${requests} requests failed within five minutes.`
    return { kind: 'failing', subject: provider, message, ...(provider && { provider }) }
  })
  await reconcileIncidents(services, ['failing'], conditions)
}
