import { z } from 'zod'
import type { AuditEvent as AuditRow, Prisma } from '../../../shared/generated/prisma/client.ts'
import { type Actor, type Changes, operatorActor } from '../../../shared/io/audit.ts'
import type { Database } from '../../../shared/io/db.ts'
import { containing, rowsAfter } from '../../../shared/io/keyset.ts'
import type { AuditEvent } from '../wire/audit.ts'
import { readBounds, spanFields } from './span.ts'

/** Longer lists, such as an allowlist, are truncated to this many items. */
const maxItems = 50

const text = z.string().trim().max(200).optional()
/** The filters of a search in the audit log. */
export const auditFilters = {
  actor: text.describe('Part of the actor: an email address or a provisioning key’s prefix; or the actor’s id.'),
  action: text.describe('"key.created", or "key" for every event of keys.'),
  target: text.describe('Part of the target: a key’s name or a member’s address; or the target’s id.'),
  ...spanFields,
  span: spanFields.span.describe('The time up to now. Without it and `from`, entries of any age.'),
}
type AuditFilters = z.output<z.ZodObject<typeof auditFilters>>

/** The entries that a search finds, of an organisation or of operators. Throws 400. */
export function whereOf(
  scope: Prisma.AuditEventWhereInput,
  { actor, action, target, ...time }: AuditFilters,
  nowMs: number,
): Prisma.AuditEventWhereInput {
  return {
    ...scope,
    createdAt: readBounds(time, nowMs),
    AND: [
      ...(actor ? [{ OR: [{ actorName: containing(actor) }, { actorId: actor }] }] : []),
      ...(action ? [{ OR: [{ action }, { action: { startsWith: `${action}.` } }] }] : []),
      ...(target ? [{ OR: [{ targetName: containing(target) }, { targetId: target }] }] : []),
    ],
  }
}

type Place = Pick<AuditRow, 'id' | 'createdAt'>

/** Reads entries by time, from the next one after `last` on. */
export function readEvents(
  db: Database,
  where: Prisma.AuditEventWhereInput,
  { last, order, limit }: { last: Place | null; order: 'asc' | 'desc'; limit: number },
) {
  return db.auditEvent.findMany({
    where: { AND: [where, last ? rowsAfter(last, order) : {}] },
    include: { organisation: { select: { id: true, name: true } } },
    orderBy: [{ createdAt: order }, { id: order }],
    take: limit,
  })
}

type Row = AuditRow & { organisation: AuditEvent['organisation'] }

/** An entry as the pages show it. Where operators of the service came from is shown to operators alone. */
export function presentEvent(row: Row, viewer: 'member' | 'operator'): AuditEvent {
  const isShown = row.actorKind !== 'operator' || viewer === 'operator'
  const changes = Object.entries((row.changes ?? {}) as Changes)
  return {
    id: row.id,
    at: row.createdAt.toISOString(),
    actor: { kind: row.actorKind as Actor['kind'], id: row.actorId, name: row.actorName },
    via: viaOf(row),
    ip_address: isShown ? row.ipAddress : null,
    user_agent: isShown ? row.userAgent : null,
    action: row.action,
    organisation: row.organisation,
    target: row.targetId === null ? null : { id: row.targetId, name: row.targetName ?? row.targetId },
    changes: Object.fromEntries(changes.map(([field, [was, is]]) => [field, [truncate(was), truncate(is)]])),
  }
}

function viaOf({ actorKind, actorId, actorName }: AuditRow): AuditEvent['via'] {
  if (actorKind === 'provisioning_key') return 'api'
  if (actorKind === 'user' || actorId !== null) return 'dashboard'
  return actorName === operatorActor.name ? 'command_line' : 'service'
}

function truncate(value: unknown): unknown {
  if (!Array.isArray(value) || value.length <= maxItems) return value
  return [...value.slice(0, maxItems), `and ${value.length - maxItems} more`]
}
