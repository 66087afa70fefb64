import type { Prisma } from '../../shared/generated/prisma/client.ts'
import type { Platform } from '../../shared/platform.ts'
import type { Context } from '../endpoint.ts'
import { presentEvent, readEvents } from './queries/audit-search.ts'
import { type ExportField, type ExportFormat, sendExport } from './row-export.ts'
import type { AuditEvent } from './wire/audit.ts'

export const maxExported = 100_000

type Row = AuditEvent & { createdAt: Date }

const fields: readonly ExportField<Row>[] = [
  ['id', row => row.id],
  ['at', row => row.at],
  ['actor', row => row.actor.name],
  ['actor_id', row => row.actor.id],
  ['actor_kind', row => row.actor.kind],
  ['via', row => row.via],
  ['ip_address', row => row.ip_address],
  ['user_agent', row => row.user_agent],
  ['action', row => row.action],
  ['target', row => row.target?.name ?? null],
  ['target_id', row => row.target?.id ?? null],
  ['organisation', row => row.organisation?.name ?? null],
  ['organisation_id', row => row.organisation?.id ?? null],
  ['changes', row => row.changes],
]

/** Answers with the entries that match, newest first, as a file. */
export function sendAudit(
  ctx: Context,
  { db }: Platform,
  {
    name,
    where,
    viewer,
    format,
  }: { name: string; where: Prisma.AuditEventWhereInput; viewer: 'member' | 'operator'; format: ExportFormat },
): Promise<void> {
  const read = async (last: Row | null, limit: number): Promise<Row[]> => {
    const rows = await readEvents(db, where, { last, order: 'desc', limit })
    return rows.map(row => ({ ...presentEvent(row, viewer), createdAt: row.createdAt }))
  }
  return sendExport(ctx, name, { fields, read, format, max: maxExported })
}
