import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { readIncidents } from '../../../shared/alerts/incident-messages.ts'
import { listMigrations } from '../../../shared/io/migrations.ts'
import { shardsOf } from '../../../shared/io/redis-shards.ts'
import type { Platform } from '../../../shared/platform.ts'
import { maxBacklog } from '../../../shared/wallet/admission.ts'
import { countEvents, usageStream } from '../../../shared/wallet/ledger.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import type { SystemAnswer, SystemFault } from '../wire/operator-home.ts'

/** A process is dead if its heartbeat is older than this; other processes then release its reservations. */
const aliveMs = 60_000
const maxInstances = 200
const root = join(import.meta.dirname, '../../..')

const system = endpoint({
  tag: 'Dashboard',
  access: 'operator',
  method: 'get',
  path: '/dashboard/api/operator/system',
  summary: 'Retrieve the state of the ledger, the open work and the processes, and what is wrong with them',
  answers: { 200: { description: 'The figures.' } },
  async handle({ services }): Promise<SystemAnswer> {
    const { db, queues } = services
    const [version, ledger, instances, workers, pending, work, batches, openIncidents, first] = await Promise.all([
      readVersion(),
      ledgerLag(services),
      liveInstances(services),
      queues.maintenance.getWorkersCount(),
      listPending(services),
      readWork(services),
      db.batch.count({ where: { status: { in: ['validating', 'in_progress', 'finalizing', 'cancelling'] } } }),
      db.incidentGroup.count({ where: { closedAt: null } }),
      readFirstIncident(services),
    ])
    const faults: SystemFault[] = []
    if (workers === 0) faults.push('no_worker')
    if (pending.length > 0) faults.push('migrations_pending')
    return {
      version,
      pending_migrations: pending,
      faults,
      open_incidents: openIncidents,
      first_incident: first,
      ledger,
      instances,
      workers,
      ...work,
      batches,
    }
  },
})

/** The incident that has lasted longest. */
async function readFirstIncident({ db }: Platform): Promise<SystemAnswer['first_incident']> {
  const orderBy = [{ openedAt: 'asc' }, { id: 'asc' }] as const
  const group = await db.incidentGroup.findFirst({ where: { closedAt: null }, orderBy: [...orderBy] })
  if (!group) return null
  const { title, openedAt } = (await readIncidents(db, [group.id])).get(group.id) ?? { title: group.key, ...group }
  return { id: group.id, title, opened_at: openedAt.toISOString() }
}

/** Number of usage events not yet in the ledger, and the time of the oldest: stream entry ids begin with their time. */
async function ledgerLag({ redis }: Platform): Promise<SystemAnswer['ledger']> {
  const [{ waiting, refused }, ...firsts] = await Promise.all([
    countEvents(redis),
    ...shardsOf(redis).all.map(({ tag }) => redis.xrange(tag + usageStream, '-', '+', 'COUNT', 1)),
  ])
  const times = firsts.flat().map(([id]) => Number(id.split('-')[0]))
  const oldestAt = times.length > 0 ? new Date(Math.min(...times)).toISOString() : null
  return { waiting, limit: maxBacklog, oldest_at: oldestAt, refused }
}

async function liveInstances({ redis }: Platform): Promise<SystemAnswer['instances']> {
  // Heartbeats use the Redis server's clock.
  const [seconds] = await redis.time()
  // Processes are registered in every shard.
  const { tag } = shardsOf(redis).all[0]!
  const range = [Number(seconds) * 1_000 - aliveMs, '+inf'] as const
  const found = await redis.zrangebyscore(`${tag}instances`, ...range, 'WITHSCORES', 'LIMIT', 0, maxInstances)
  return Array.from({ length: found.length / 2 }, (_, i) => ({
    id: found[2 * i]!,
    seen_at: new Date(Number(found[2 * i + 1])).toISOString(),
  }))
}

async function readVersion(): Promise<string> {
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }
  return version
}

/** The migrations of this version that were not applied. */
async function listPending({ db }: Platform): Promise<string[]> {
  const names = await listMigrations(join(root, 'prisma/migrations'))
  const applied = await db.$queryRaw<{ name: string }[]>`
    SELECT migration_name AS name FROM _prisma_migrations WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL`
  const isApplied = new Set(applied.map(({ name }) => name))
  return names.filter(name => !isApplied.has(name))
}

/** Unfinished jobs, and webhook deliveries that wait for their next attempt. */
async function readWork({ db }: Platform): Promise<Pick<SystemAnswer, 'jobs' | 'webhooks'>> {
  const [jobs, [webhooks]] = await Promise.all([
    db.job.groupBy({
      by: ['status'],
      where: { stage: { in: ['waiting', 'starting', 'running'] } },
      _count: true,
      _min: { createdAt: true },
    }),
    db.$queryRaw<[{ pending: number; oldestAt: Date | null }]>`
      SELECT count(*)::int AS pending, min(created_at) AS "oldestAt" FROM webhook_deliveries WHERE status = 'pending'`,
  ])
  const of = (wanted: string) => jobs.find(({ status }) => status === wanted)
  return {
    jobs: {
      queued: of('queued')?._count ?? 0,
      in_progress: of('in_progress')?._count ?? 0,
      oldest_at: of('queued')?._min.createdAt?.toISOString() ?? null,
    },
    webhooks: { pending: webhooks.pending, oldest_at: webhooks.oldestAt?.toISOString() ?? null },
  }
}

export const operatorServiceRoutes: Endpoint[] = [system]
