import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import type { AuditEvent as AuditRow } from '../../../shared/generated/prisma/client.ts'
import type { Database } from '../../../shared/io/db.ts'
import type { Actor, Changes } from '../../../shared/keys/audit.ts'
import { endpoint } from '../../endpoint.ts'
import { pageOf, paging } from '../../routes/paging.ts'
import type { AuditAnswer, AuditEvent } from '../wire/audit.ts'

/** Of a longer list, such as an allowlist, this many items are shown. */
const mostItems = 50

const text = z.string().trim().max(200).optional()
const filters = {
  actor: text.describe('A part of who did it: an email address, a provisioning key’s prefix; or their id.'),
  action: text.describe('"key.created", or "key" for everything that happens to keys.'),
  target: text.describe('A part of what it was done to: a key’s name, a member’s address; or its id.'),
}
type Filters = { [name in keyof typeof filters]?: string | undefined }

const listEvents = endpoint({
  method: 'get',
  path: '/dashboard/api/organisations/{organisation}/audit',
  tag: 'Dashboard',
  summary: 'Who changed what in the organisation',
  access: { role: 'admin' },
  query: z.strictObject({ ...paging, ...filters }),
  answers: { 200: { description: 'A page of changes, newest first.' } },
  handle({ services: { db }, organisationId, query }): Promise<AuditAnswer> {
    return pageOf(
      query,
      async ({ limit, after, order }) => {
        const last = after === undefined ? null : await eventOf(db, organisationId, after)
        const beyond = order === 'desc' ? 'lt' : 'gt'
        return db.auditEvent.findMany({
          where: {
            organisationId,
            AND: matching(query),
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
      async rows => rows.map(present),
    )
  },
})

async function eventOf(db: Database, organisationId: string, id: string): Promise<AuditRow> {
  const row = await db.auditEvent.findFirst({ where: { id, organisationId } })
  if (!row) throw new GatewayError('not_found', 'There is no such entry to start after.')
  return row
}

function matching({ actor, action, target }: Filters) {
  const part = (value: string) => ({ contains: value, mode: 'insensitive' as const })
  return [
    ...(actor ? [{ OR: [{ actorName: part(actor) }, { actorId: actor }] }] : []),
    ...(action ? [{ OR: [{ action }, { action: { startsWith: `${action}.` } }] }] : []),
    ...(target ? [{ OR: [{ targetName: part(target) }, { targetId: target }] }] : []),
  ]
}

function present(row: AuditRow): AuditEvent {
  const changes = Object.entries((row.changes ?? {}) as Changes)
  return {
    id: row.id,
    at: row.createdAt.toISOString(),
    actor: { kind: row.actorKind as Actor['kind'], id: row.actorId, name: row.actorName },
    action: row.action,
    target: row.targetId === null ? null : { id: row.targetId, name: row.targetName ?? row.targetId },
    changes: Object.fromEntries(changes.map(([field, [was, is]]) => [field, [shortened(was), shortened(is)]])),
  }
}

function shortened(value: unknown): unknown {
  if (!Array.isArray(value) || value.length <= mostItems) return value
  return [...value.slice(0, mostItems), `and ${value.length - mostItems} more`]
}

export const auditRoutes = [listEvents]
