import { z } from 'zod'
import type { IncidentSummary } from '../../../shared/alerts/incident-groups.ts'
import { readIncidents } from '../../../shared/alerts/incident-messages.ts'
import type { IncidentKind } from '../../../shared/alerts/incidents.ts'
import { GatewayError } from '../../../shared/base/errors.ts'
import { dayMs } from '../../../shared/base/time.ts'
import type { IncidentGroup, IncidentMessage as MessageRow } from '../../../shared/generated/prisma/client.ts'
import type { Platform } from '../../../shared/platform.ts'
import { sumUsage } from '../../../shared/wallet/usage-query.ts'
import { type Endpoint, endpoint } from '../../endpoint.ts'
import { findObjects } from '../../find-object.ts'
import { paging } from '../../routes/paging.ts'
import { runSearch } from '../queries/run-search.ts'
import { readSpan, spanFields } from '../queries/span.ts'
import { usageBound } from '../queries/usage-filter.ts'
import type {
  Affected,
  AffectedRow,
  FindAnswer,
  Incident,
  IncidentDetail,
  IncidentMessage,
  IncidentsPage,
} from '../wire/operator-home.ts'

const base = '/dashboard/api/operator'
const shared = { tag: 'Dashboard', access: 'operator' } as const
const maxAffected = 20
const maxRecords = 100
const maxMessages = 100
/** The request log of a longer incident is not read as a whole. */
const maxAffectedMs = 7 * dayMs
/** Failures that opened the incident began before it. */
const leadMs = 5 * 60_000

const word = z.string().trim().min(1).max(200).optional()

const list = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/incidents`,
  summary: 'List incidents: those that last, then the others, newest first',
  query: z.strictObject({ limit: paging.limit, after: paging.after, provider: word }),
  answers: { 200: { description: 'A page of incidents.' } },
  errors: ['not_found'],
  async handle({ services, query: { limit, after, provider } }): Promise<IncidentsPage> {
    const last = after === undefined ? null : await groupOf(services, after)
    // Those that last come first, as one group; a cursor among them continues with the rest of both groups.
    const rows = await services.db.$queryRaw<{ id: string }[]>`
      SELECT id FROM incident_groups
      WHERE (${provider ?? null}::text IS NULL OR provider = ${provider ?? null})
        AND (${last?.id ?? null}::text IS NULL OR (closed_at IS NULL, opened_at, id)
          < (${last?.closedAt === null}, ${last?.openedAt ?? null}::timestamptz, ${last?.id ?? null}))
      ORDER BY closed_at IS NULL DESC, opened_at DESC, id DESC LIMIT ${limit + 1}`
    const ids = rows.slice(0, limit).map(({ id }) => id)
    const found = await readIncidents(services.db, ids)
    const data = ids.flatMap(id => {
      const incident = found.get(id)
      return incident ? presentIncident(incident) : []
    })
    return { data, has_more: rows.length > limit, last_id: data.at(-1)?.id ?? null }
  },
})

const readOne = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/incidents/{id}`,
  summary: 'Retrieve an incident with its faults, whom it affected, and which messages operators got',
  answers: { 200: { description: 'The incident.' } },
  errors: ['not_found'],
  async handle({ services, params }): Promise<IncidentDetail> {
    const { db, clock } = services
    const { id } = await groupOf(services, params.id!)
    const incident = (await readIncidents(db, [id])).get(id)!
    const newest = [{ openedAt: 'desc' }, { id: 'desc' }] as const
    const [records, messages] = await Promise.all([
      db.incident.findMany({ where: { groupId: id }, orderBy: [...newest], take: maxRecords }),
      db.incidentMessage.findMany({ where: { groupId: id }, orderBy: { createdAt: 'asc' }, take: maxMessages }),
    ])
    const { provider, openedAt, closedAt } = incident
    const to = closedAt ?? new Date(clock.now())
    const fromMs = Math.max(openedAt.getTime() - leadMs, to.getTime() - maxAffectedMs)
    return {
      ...presentIncident(incident),
      records: records.map(row => ({
        id: row.id,
        kind: row.kind as IncidentKind,
        subject: row.subject,
        model: row.model,
        message: row.message,
        opened_at: row.openedAt.toISOString(),
        closed_at: row.closedAt?.toISOString() ?? null,
      })),
      affected: provider === null ? null : await readAffected(services, provider, new Date(fromMs), to, 'log'),
      messages: messages.map(presentMessage),
    }
  },
})

const affected = endpoint({
  ...shared,
  method: 'get',
  // The name of a region has a slash, so that it is not a part of the path here.
  path: `${base}/affected`,
  summary: 'List the organisations and API keys whose requests failed at a provider, the largest first',
  query: z.strictObject({ ...spanFields, provider: z.string().trim().min(1).max(200) }),
  answers: { 200: { description: 'Whom it affected.' } },
  handle({ services, query }): Promise<Affected> {
    const { from, to, source } = readSpan(query, services.clock.now())
    return readAffected(services, query.provider, from, to, source)
  },
})

const search = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/find`,
  summary: 'Find what has an id, in any organisation, and users, organisations, models and providers by name',
  query: z.strictObject({ text: z.string().trim().min(2).max(200) }),
  answers: { 200: { description: 'What was found, exact ids first.' } },
  async handle({ services, query }): Promise<FindAnswer> {
    return { data: await findObjects(services, query.text) }
  },
})

async function readAffected(
  { db }: Platform,
  provider: string,
  from: Date,
  to: Date,
  source: 'hours' | 'log',
): Promise<Affected> {
  const filter = { organisationId: null, environment: 'live', provider, from, to } as const
  const grouping = { step: null, source, order: 'errors', durations: false, limit: maxAffected } as const
  const [organisations, keys] = await runSearch(db, usageBound, null, async tx => [
    await sumUsage(tx, filter, { ...grouping, by: ['organisation'] }),
    await sumUsage(tx, filter, { ...grouping, by: ['key'] }),
  ])
  const failed = organisations!.total?.outcomes.failed ?? 0
  const rowsOf = (sums: typeof organisations) =>
    sums!.rows
      .filter(({ outcomes }) => outcomes.failed > 0)
      .map(({ groups: [id = ''], requests, outcomes }) => {
        return { id, requests, failed: outcomes.failed, share: outcomes.failed / Math.max(1, failed) }
      })
  const [ofOrganisations, ofKeys] = [rowsOf(organisations), rowsOf(keys)]
  const names = await db.organisation.findMany({
    where: { id: { in: ofOrganisations.map(({ id }) => id) } },
    select: { id: true, name: true },
  })
  const found = await db.apiKey.findMany({
    where: { id: { in: ofKeys.map(({ id }) => id) } },
    select: { id: true, name: true, last4: true, organisationId: true },
  })
  const nameOf = new Map(names.map(({ id, name }) => [id, name]))
  const keyOf = new Map(found.map(key => [key.id, key]))
  return {
    failed,
    organisations: ofOrganisations.map((row): AffectedRow => ({ ...row, name: nameOf.get(row.id) ?? row.id })),
    keys: ofKeys.flatMap(row => {
      const key = keyOf.get(row.id)
      return key ? { ...row, name: key.name, last4: key.last4, organisation_id: key.organisationId } : []
    }),
  }
}

/** Throws 404. */
async function groupOf({ db }: Platform, id: string): Promise<IncidentGroup> {
  const row = await db.incidentGroup.findUnique({ where: { id } })
  if (!row) throw new GatewayError('not_found', 'No such incident.')
  return row
}

function presentIncident(incident: IncidentGroup & IncidentSummary): Incident {
  const { id, title, kinds, provider, models, message, openedAt, closedAt } = incident
  return {
    id,
    title,
    kinds,
    provider,
    models,
    message,
    opened_at: openedAt.toISOString(),
    closed_at: closedAt?.toISOString() ?? null,
  }
}

/** A message to operators, as the dashboard shows it. */
export function presentMessage(row: MessageRow): IncidentMessage {
  const { id, groupId, event, channel, target, status, attempts, error } = row
  return {
    id,
    incident_id: groupId,
    target,
    attempts,
    error,
    event: event as IncidentMessage['event'],
    channel: channel as IncidentMessage['channel'],
    status: status as IncidentMessage['status'],
    created_at: row.createdAt.toISOString(),
    ended_at: row.endedAt?.toISOString() ?? null,
    next_attempt_at: status === 'pending' ? row.nextAttemptAt.toISOString() : null,
  }
}

export const operatorIncidentRoutes: Endpoint[] = [list, readOne, affected, search]
