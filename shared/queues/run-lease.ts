import { randomUUID } from 'node:crypto'
import { Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../io/db.ts'
import type { Logger } from '../io/log.ts'

/** A run's lease; without renewal it expires: its worker died. */
const leaseMs = 8_000
const renewEveryMs = 2_000

/** The tables whose rows have a lease. */
type LeasedTable = 'batches' | 'jobs'
type Row = { table: LeasedTable; id: string }

/**
 * Does work on a row under a lease, which is renewed until the work ends, by PostgreSQL's time: the queue may deliver its
 * entry to another worker although this one is alive. Returns the result, or for how many milliseconds to wait while
 * another run holds the row.
 */
export async function runLeased(
  { db, log }: { db: Database; log: Logger },
  row: Row,
  work: () => Promise<number | null>,
): Promise<number | null> {
  const run = randomUUID()
  const heldMs = await lease(db, row, run)
  if (heldMs > 0) return heldMs
  const ignore = (error: unknown) => log.warn({ err: error, ...row }, 'cannot write the lease of a run')
  const renewing = setInterval(() => void renew(db, row, run).catch(ignore), renewEveryMs).unref()
  try {
    return await work()
  } finally {
    clearInterval(renewing)
    await endLease(db, row, run).catch(ignore)
  }
}

/** Leases a row to a run. Returns 0 when the run holds it, else for how many milliseconds another run still does. */
async function lease(db: Database, { table, id }: Row, run: string): Promise<number> {
  const name = Prisma.raw(table)
  const [found] = await db.$queryRaw<[{ heldMs: number }?]>`
    WITH leased AS (
      UPDATE ${name} SET lease_run = ${run}, lease_until = now() + ${leaseMs} * interval '1 millisecond'
      WHERE id = ${id} AND coalesce(lease_until <= now(), true) RETURNING id)
    SELECT CASE WHEN EXISTS (SELECT 1 FROM leased) THEN 0
      -- Without a lease in this snapshot, another run has just taken it.
      ELSE coalesce(extract(epoch FROM lease_until - now()) * 1000, ${leaseMs}) END::float8 AS "heldMs"
    FROM ${name} WHERE id = ${id}`
  return found?.heldMs ?? 0
}

/** Renews a lease that no other run has taken, also after it expired. */
async function renew(db: Database, { table, id }: Row, run: string): Promise<void> {
  await db.$executeRaw`
    UPDATE ${Prisma.raw(table)} SET lease_until = now() + ${leaseMs} * interval '1 millisecond'
    WHERE id = ${id} AND lease_run = ${run}`
}

async function endLease(db: Database, { table, id }: Row, run: string): Promise<void> {
  await db.$executeRaw`
    UPDATE ${Prisma.raw(table)} SET lease_run = NULL, lease_until = NULL WHERE id = ${id} AND lease_run = ${run}`
}
