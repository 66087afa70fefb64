import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import type { AuditEvent as AuditRow } from '../../../shared/generated/prisma/client.ts'
import type { Database } from '../../../shared/io/db.ts'
import type { Actor, Changes } from '../../../shared/keys/audit.ts'
import { endpoint } from '../../endpoint.ts'
import { paging, readPage } from '../../routes/paging.ts'
import type { AuditAnswer, AuditEvent } from '../wire/audit.ts'

/** Longer lists, such as an allowlist, are truncated to this many items. */
const maxItems = 50

const text = z.string().trim().max(200).optional()
export const filters = {
  actor: text.describe('Part of the actor: an email address or a provisioning key’s prefix; or the actor’s id.'),
  action: text.describe('"key.created", or "key" for every event of keys.'),
  target: text.describe('Part of the target: a key’s name or a member’s address; or the target’s id.'),
}
type Filters = { [name in keyof typeof filters]?: string | undefined }

const listEvents = endpoint({
  method: 'get',
  path: '/dashboard/api/organisations/{organisation}/audit',
  tag: 'Dashboard',
  summary: 'List audit log entries',
  access: { role: 'admin' },
  query: z.strictObject({ ...paging, ...filters }),
  answers: { 200: { description: 'A page of entries, newest first.' } },
  handle({ services: { db }, organisationId, query }): Promise<AuditAnswer> {
    return readPage(
      query,
      async ({ limit, after, order }) => {
        const last = after === undefined ? null : await eventOf(db, organisationId, after)
        const beyond = order === 'desc' ? 'lt' : 'gt'
        return db.auditEvent.findMany({
          where: {
            organisationId,
            AND: whereOf(query),
            ...(last && {
              OR: [
                { createdAt: { [beyond]: last.createdAt } },
                { createdAt: last.createdAt, id: { [beyond]: last.id } },
              ],
            }),
          },
          orderBy: [{ createdAt: order }, { id: order }],
          take: limit,
        })
      },
      async rows => rows.map(presentEvent),
    )
  },
})

async function eventOf(db: Database, organisationId: string, id: string): Promise<AuditRow> {
  const row = await db.auditEvent.findFirst({ where: { id, organisationId } })
  if (!row) throw new GatewayError('not_found', 'No such audit log entry.')
  return row
}

export function whereOf({ actor, action, target }: Filters) {
  const part = (value: string) => ({ contains: value, mode: 'insensitive' as const })
  return [
    ...(actor ? [{ OR: [{ actorName: part(actor) }, { actorId: actor }] }] : []),
    ...(action ? [{ OR: [{ action }, { action: { startsWith: `${action}.` } }] }] : []),
    ...(target ? [{ OR: [{ targetName: part(target) }, { targetId: target }] }] : []),
  ]
}

export function presentEvent(row: AuditRow): AuditEvent {
  const changes = Object.entries((row.changes ?? {}) as Changes)
  return {
    id: row.id,
    at: row.createdAt.toISOString(),
    actor: { kind: row.actorKind as Actor['kind'], id: row.actorId, name: row.actorName },
    action: row.action,
    target: row.targetId === null ? null : { id: row.targetId, name: row.targetName ?? row.targetId },
    changes: Object.fromEntries(changes.map(([field, [was, is]]) => [field, [truncate(was), truncate(is)]])),
  }
}

function truncate(value: unknown): unknown {
  if (!Array.isArray(value) || value.length <= maxItems) return value
  return [...value.slice(0, maxItems), `and ${value.length - maxItems} more`]
}

export const auditRoutes = [listEvents]
