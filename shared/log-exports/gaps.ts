import { raiseAlerts } from '../alerts/raise.ts'
import { dayMs } from '../base/time.ts'
import type { LogExport, LogExportCursor } from '../generated/prisma/client.ts'
import { monthStart } from '../wallet/partitions.ts'
import { writeCursor } from './claims.ts'
import type { LogExportServices } from './export-services.ts'

/** Rows that an export did not get before they were deleted, or may have missed. */
type Gap = { from: string; to: string; reason: GapReason; noticed_at: string }
type GapReason = 'retention' | 'transactions_restarted'

const maxGaps = 20

/** Notes what was deleted by its age before a live cursor reached it. */
export async function noteDeleted(
  services: LogExportServices,
  logExport: LogExport,
  cursor: LogExportCursor,
  run: string,
): Promise<void> {
  if (cursor.replayFrom !== null) return
  const keptFrom = await oldestKept(services, logExport, cursor.stream)
  if (cursor.deliveredThrough >= keptFrom) return
  await noteGap(services, logExport, cursor, run, { reason: 'retention', to: keptFrom })
}

/** Notes a gap from what is delivered up to a time, at most now, and tells the organisation. */
export async function noteGap(
  services: LogExportServices,
  logExport: LogExport,
  cursor: LogExportCursor,
  run: string,
  { reason, to = new Date(services.clock.now()), position }: { reason: GapReason; to?: Date; position?: bigint },
): Promise<void> {
  const { db, clock, log, webhooks } = services
  const from = cursor.deliveredThrough
  const gap: Gap = {
    from: from.toISOString(),
    to: to.toISOString(),
    reason,
    noticed_at: new Date(clock.now()).toISOString(),
  }
  const gaps = [...(cursor.gaps as Gap[]), gap].slice(-maxGaps)
  const moved = position === undefined ? {} : { position, rowId: null }
  const data = { gaps, deliveredThrough: to, ...moved }
  if (!(await writeCursor(db, cursor, run, data))) return
  Object.assign(cursor, data)
  log.warn({ export: logExport.id, stream: cursor.stream, ...gap }, 'an export of logs has a gap')
  const { organisationId } = logExport
  if (organisationId === null) return
  const event = { object: 'log_export.gap', id: logExport.id, name: logExport.name, stream: cursor.stream, ...gap }
  const cause = `log_export_gap:${cursor.id}:${from.getTime()}:${to.getTime()}`
  const alert = { organisationId, cause, type: 'log_export.gap', keyId: null, data: event } as const
  const { deliveryIds } = await db.$transaction(tx => raiseAlerts(services, tx, [alert]))
  await webhooks.enqueue(deliveryIds)
}

/** The earliest time of which a stream still has all rows. */
async function oldestKept(
  { db, clock, config }: LogExportServices,
  logExport: LogExport,
  stream: string,
): Promise<Date> {
  const nowMs = clock.now()
  if (stream === 'requests') return monthStart(nowMs, -config.generationRetentionMonths)
  if (stream === 'audit') return monthStart(nowMs, -config.auditRetentionMonths)
  // Of the operator's exports those of the organisation that keeps content longest.
  const where = logExport.organisationId === null ? {} : { id: logExport.organisationId }
  const { _max } = await db.organisation.aggregate({ where, _max: { contentRetentionDays: true } })
  return new Date(nowMs - (_max.contentRetentionDays ?? 1) * dayMs)
}
