import { newId } from '../base/ids.ts'
import type { Incident, IncidentGroup } from '../generated/prisma/client.ts'
import type { Platform } from '../platform.ts'
import type { IncidentKind } from './incidents.ts'

/** The time after its end within which an incident continues if the fault comes back; after it, operators are told that it is resolved. */
export const settleMs = 120_000
/** Maximum records that are assigned at once; the rest follows with the next call. */
const maxAssigned = 500
/** Names of models that a title or a message lists. */
const maxNamed = 20
/** Any number that other locks of the service do not use. */
const lockId = 7_102_026

/** What operators choose to be told about. */
export const topics = ['providers', 'service', 'reservations', 'webhooks'] as const
export type Topic = (typeof topics)[number]

/** The faults that are one incident of their provider. */
const providerKinds: ReadonlySet<string> = new Set<IncidentKind>(['circuit', 'key', 'failing'])

/** A record, as its group needs it. */
type IncidentRecord = Pick<
  Incident,
  'id' | 'kind' | 'subject' | 'provider' | 'model' | 'message' | 'openedAt' | 'closedAt'
>

/** Records with the same key at the same time are one incident: those of a provider; those of a kind of the service. */
function groupKeyOf({ kind, subject, provider }: IncidentRecord): string {
  if (providerKinds.has(kind) && provider) return `provider|${provider}`
  if (kind === 'reservations') return `reservations|${provider ?? ''}`
  return kind === 'webhook' || kind === 'log_export' || kind === 'paused' ? `${kind}|${subject}` : kind
}

/** The topic of a group; null for what operators did themselves, which nobody is told. */
export function topicOf({ key }: Pick<IncidentGroup, 'key'>): Topic | null {
  const [kind] = key.split('|')
  if (kind === 'provider') return 'providers'
  if (kind === 'paused') return null
  return kind === 'reservations' ? 'reservations' : kind === 'webhook' ? 'webhooks' : 'service'
}

/**
 * Assigns new records to the incidents that operators see, and brings these up to date. Idempotent; a lock lets one process do it at
 * a time. Records of a previous release, which knows no groups, are assigned as well.
 */
export async function groupIncidents({ db, clock }: Pick<Platform, 'db' | 'clock'>): Promise<void> {
  const now = new Date(clock.now())
  await db.$transaction(async tx => {
    await tx.$queryRaw`SELECT pg_advisory_xact_lock(${lockId}) IS NULL AS locked`
    const where = { groupId: null }
    const records = await tx.incident.findMany({ where, orderBy: { openedAt: 'asc' }, take: maxAssigned })
    const touched = new Set<string>()
    for (const record of records) {
      const { openedAt, closedAt, provider } = record
      const key = groupKeyOf(record)
      const earliest = new Date(openedAt.getTime() - settleMs)
      const found = await tx.incidentGroup.findFirst({
        where: {
          key,
          resolvedToldAt: null,
          OR: [{ closedAt: null }, { closedAt: { gte: earliest } }],
          ...(closedAt && { openedAt: { lte: closedAt } }),
        },
        orderBy: { openedAt: 'desc' },
      })
      const told = closedAt && now.getTime() - closedAt.getTime() > 5 * settleMs ? now : null
      const group =
        found ??
        (await tx.incidentGroup.create({
          data: {
            id: newId('inc'),
            key,
            provider,
            openedAt,
            closedAt,
            createdAt: now,
            // What was over long before anybody could tell it is history.
            openedToldAt: told,
            resolvedToldAt: told,
          },
        }))
      await tx.incident.update({ where: { id: record.id }, data: { groupId: group.id } })
      if (!closedAt && group.closedAt)
        await tx.incidentGroup.update({ where: { id: group.id }, data: { closedAt: null } })
      touched.add(group.id)
    }
    await tx.$executeRaw`
      UPDATE incident_groups g SET opened_at = least(g.opened_at, s.opened_at), closed_at = s.closed_at
      FROM (
        SELECT group_id, min(opened_at) AS opened_at,
          CASE WHEN bool_or(closed_at IS NULL) THEN NULL ELSE max(closed_at) END AS closed_at
        FROM incidents
        WHERE group_id IN (SELECT id FROM incident_groups WHERE closed_at IS NULL) OR group_id = ANY(${[...touched]})
        GROUP BY group_id) s
      WHERE g.id = s.group_id AND (g.closed_at IS DISTINCT FROM s.closed_at OR g.opened_at > s.opened_at)`
  })
}

/** What an incident is, in plain words, from its records. */
export type IncidentSummary = { title: string; message: string | null; kinds: IncidentKind[]; models: string[] }

const serviceTitles: Record<string, string> = {
  instance: 'A process stopped responding',
  no_worker: 'No worker was running',
  housekeeping: 'Housekeeping is overdue',
  backlog: 'Usage is not booked fast enough',
  refused_events: 'PostgreSQL rejects usage events',
  webhook: 'Deliveries to a webhook endpoint fail',
  log_export: 'An export of logs fails',
}

/** Summarises an incident. `records` are the latest first. */
export function summarise(
  { key, provider, closedAt }: Pick<IncidentGroup, 'key' | 'provider' | 'closedAt'>,
  records: readonly IncidentRecord[],
): IncidentSummary {
  const kinds = [...new Set(records.map(({ kind }) => kind as IncidentKind))]
  const models = [...new Set(records.flatMap(({ model }) => model ?? []))]
  const message = records.find(one => one.message !== null && one.kind !== 'failing')?.message ?? null
  const fallback = records.find(one => one.message !== null)?.message ?? null
  const title = titleOf({ key, provider, isOver: closedAt !== null }, kinds, models)
  return { title, message: message ?? fallback, kinds, models: models.slice(0, maxNamed) }
}

function titleOf(
  { key, provider, isOver }: { key: string; provider: string | null; isOver: boolean },
  kinds: readonly IncidentKind[],
  models: readonly string[],
): string {
  const [kind = ''] = key.split('|')
  if (kind === 'paused') return `${provider} ${isOver ? 'was' : 'is'} paused by an operator`
  if (kind === 'reservations') return `Requests at ${provider || 'a provider'} cost more than was reserved`
  if (kind !== 'provider') return serviceTitles[kind] ?? kind
  if (models.length === 1) return `${models[0]} ${isOver ? 'failed' : 'fails'} at ${provider}`
  if (models.length > 1) return `${models.length} models ${isOver ? 'failed' : 'fail'} at ${provider}`
  if (kinds.includes('key')) return `${provider} ${isOver ? 'refused' : 'refuses'} an API key`
  return `Many requests ${isOver ? 'failed' : 'fail'} at ${provider}`
}
