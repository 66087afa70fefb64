import type { LogExport, LogExportCursor, Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../io/db.ts'

/** Exports are delivered by one worker at a time, under a lease by PostgreSQL's clock. Writes of a run that lost it have no effect. */

export type Lease = { run: string; leaseMs: number }

/** Claims exports that are due, those that are longest due first. Returns their ids. */
export async function claimExports(
  db: Database,
  { run, leaseMs }: Lease,
  nowMs: number,
  max: number,
): Promise<string[]> {
  const rows = await db.$queryRaw<{ id: string }[]>`
    UPDATE log_exports SET lease_run = ${run}, lease_until = clock_timestamp() + ${leaseMs} * interval '1 millisecond'
    WHERE id IN (
      SELECT id FROM log_exports
      WHERE enabled AND due_at <= ${new Date(nowMs)} AND (lease_until IS NULL OR lease_until < clock_timestamp())
      ORDER BY due_at, id LIMIT ${max} FOR UPDATE SKIP LOCKED)
    RETURNING id`
  return rows.map(({ id }) => id)
}

/** Renews a lease and reads the export with its running cursors; null if it was lost, or the export is disabled or gone. */
export async function renewLease(
  db: Database,
  id: string,
  { run, leaseMs }: Lease,
): Promise<(LogExport & { cursors: LogExportCursor[] }) | null> {
  const renewed = await db.$executeRaw`
    UPDATE log_exports SET lease_until = clock_timestamp() + ${leaseMs} * interval '1 millisecond'
    WHERE id = ${id} AND lease_run = ${run} AND enabled`
  if (renewed === 0) return null
  const cursors = { where: { status: 'running' }, orderBy: { id: 'asc' } } as const
  return db.logExport.findUnique({ where: { id }, include: { cursors } })
}

/** Ends a run: other workers may claim the export when it is due, at the latest for the next attempt or a replay that waits. */
export async function releaseExport(db: Database, id: string, run: string, dueAt: Date): Promise<void> {
  await db.$executeRaw`
    UPDATE log_exports e SET lease_run = NULL, lease_until = NULL, due_at = least(${dueAt}, (
      SELECT min(c.next_attempt_at) FROM log_export_cursors c
      WHERE c.export_id = e.id AND c.status = 'running' AND (c.attempts > 0 OR c.replay_from IS NOT NULL)))
    WHERE id = ${id} AND lease_run = ${run}`
}

/** Writes a cursor, if the run still has the lease and the cursor still runs. False if it does not. */
export async function writeCursor(
  db: Database,
  { id, exportId }: Pick<LogExportCursor, 'id' | 'exportId'>,
  run: string,
  data: Prisma.LogExportCursorUpdateManyMutationInput,
): Promise<boolean> {
  const { count } = await db.logExportCursor.updateMany({
    where: { id, exportId, status: 'running', export: { leaseRun: run } },
    data,
  })
  return count === 1
}
