import { setTimeout as sleep } from 'node:timers/promises'
import { elapsedMs, longAgo } from '../shared/base/time.ts'
import { storeDefinitions } from '../shared/metrics/definitions.ts'
import type { Value } from '../shared/metrics/registry.ts'
import type { Platform } from '../shared/platform.ts'
import { countEvents } from '../shared/wallet/ledger.ts'

/** Several Prometheus servers, and the gauges of one scrape, share a reading. */
const maxAgeMs = 5_000
/** Shorter than Prometheus' own timeout, so that a store that hangs does not fail the scrape. */
const readTimeoutMs = 3_000

type Gauge = keyof typeof storeDefinitions
type Reading = Partial<Record<Gauge, Value[]>>

/**
 * Adds the gauges of what PostgreSQL and Redis hold for all processes: jobs, queues, webhooks, events to be booked. They are read
 * at a scrape; those of a store that cannot be read are missing from it.
 */
export function addStoreMetrics(services: Platform): void {
  const readings = new StoreReadings(services)
  for (const [gauge, definition] of Object.entries(storeDefinitions))
    services.metrics?.add({ ...definition }, async () => (await readings.read())[gauge as Gauge] ?? [])
}

class StoreReadings {
  readonly #services: Platform
  readonly #stores: Record<string, () => Promise<Reading>>
  #reading: Promise<Reading> | null = null
  #readAtMs = longAgo
  /** The stores that have not answered an earlier reading yet: they are not asked again. */
  readonly #pending = new Set<string>()

  constructor(services: Platform) {
    this.#services = services
    this.#stores = { postgres: () => readPostgres(services), redis: () => readRedis(services) }
  }

  read(): Promise<Reading> {
    const nowMs = this.#services.monotonic.now()
    if (!this.#reading || elapsedMs(this.#readAtMs, nowMs) >= maxAgeMs) {
      this.#readAtMs = nowMs
      this.#reading = this.#readAll()
    }
    return this.#reading
  }

  async #readAll(): Promise<Reading> {
    const readings = Object.entries(this.#stores).map(([store, read]) => this.#readStore(store, read))
    return Object.assign({}, ...(await Promise.all(readings)))
  }

  async #readStore(store: string, read: () => Promise<Reading>): Promise<Reading> {
    const { metrics, log } = this.#services
    const timeout = new AbortController()
    try {
      if (this.#pending.has(store)) throw new Error('an earlier reading has not ended')
      this.#pending.add(store)
      const reading = read().finally(() => this.#pending.delete(store))
      return await Promise.race([reading, fail(readTimeoutMs, timeout.signal)])
    } catch (error) {
      metrics?.recordScrapeError(store)
      log.warn({ err: error, store }, 'cannot read a store for the metrics')
      return {}
    } finally {
      timeout.abort()
    }
  }
}

/** Rejects after a time, or once `signal` is aborted. */
async function fail(ms: number, signal: AbortSignal): Promise<never> {
  await sleep(ms, undefined, { signal })
  throw new Error(`no answer within ${ms} ms`)
}

type Work = { kind: string; stage: string; count: number; ageSeconds: number; heldNano: number }

async function readPostgres({ db, clock }: Platform): Promise<Reading> {
  const now = new Date(clock.now())
  const work = await db.$queryRaw<Work[]>`
    SELECT kind, stage::text AS stage, count(*)::float8 AS count, sum(hold_nano)::float8 AS "heldNano",
      extract(epoch FROM ${now} - min(created_at))::float8 AS "ageSeconds"
    FROM jobs WHERE stage IN ('waiting', 'starting', 'running') GROUP BY 1, 2
    UNION ALL
    SELECT 'batch', status::text, count(*)::float8, sum(hold_nano)::float8,
      extract(epoch FROM ${now} - min(created_at))::float8
    FROM batches WHERE status IN ('validating', 'in_progress', 'finalizing', 'cancelling') GROUP BY 2`
  const [webhooks] = await db.$queryRaw<{ pending: number; lagSeconds: number | null }[]>`
    SELECT count(*)::float8 AS pending, extract(epoch FROM ${now} - min(next_attempt_at))::float8 AS "lagSeconds"
    FROM webhook_deliveries WHERE status = 'pending'`
  const exports = await db.$queryRaw<{ stream: string; lagSeconds: number }[]>`
    SELECT c.stream, extract(epoch FROM ${now} - min(c.delivered_through))::float8 AS "lagSeconds"
    FROM log_exports e JOIN log_export_cursors c ON c.export_id = e.id
    WHERE e.enabled AND c.replay_from IS NULL GROUP BY 1`
  const [failing] = await db.$queryRaw<{ count: number }[]>`
    SELECT count(*)::float8 AS count FROM log_exports e WHERE e.paused_for_failures OR (e.enabled AND EXISTS (
      SELECT 1 FROM log_export_cursors c WHERE c.export_id = e.id AND c.status = 'running' AND c.attempts > 0))`
  const byStage = (figure: (row: Work) => number) =>
    work.map(row => ({ labels: { kind: row.kind, stage: row.stage }, value: Math.max(0, figure(row)) }))
  const heldNano = work.reduce((sum, row) => sum + row.heldNano, 0)
  return {
    jobs: byStage(({ count }) => count),
    jobAge: byStage(({ ageSeconds }) => ageSeconds),
    heldUsd: single(heldNano / 1e9),
    webhookBacklog: single(webhooks!.pending),
    exportLag: exports.map(({ stream, lagSeconds }) => ({ labels: { stream }, value: Math.max(0, lagSeconds) })),
    exportsFailing: single(failing!.count),
    webhookLag: single(Math.max(0, webhooks!.lagSeconds ?? 0)),
  }
}

const queueStates = ['waiting', 'prioritized', 'active', 'delayed'] as const

async function readRedis({ redis, queues }: Platform): Promise<Reading> {
  const depths = Object.entries(queues).map(async ([name, queue]) => {
    const counts = await queue.getJobCounts(...queueStates)
    return queueStates.map(state => ({ labels: { queue: name, state }, value: counts[state] ?? 0 }))
  })
  const [{ waiting, refused }, ...queueJobs] = await Promise.all([countEvents(redis), ...depths])
  return { queueJobs: queueJobs.flat(), unbookedEvents: single(waiting), refusedEvents: single(refused) }
}

function single(value: number): Value[] {
  return [{ labels: {}, value }]
}
