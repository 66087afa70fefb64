import { Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../io/db.ts'

/** What is removed of jobs that are over. Their charges stay in the ledger. */

const maxPerUpdate = 1_000
const maxPages = 100

/** Jobs that ended before a time and still have their input, metadata or result. */
export function unforgottenJobs(endedBefore: Date): Prisma.Sql {
  return Prisma.sql`stage = 'over' AND forgotten_at IS NULL AND completed_at < ${endedBefore}`
}

/**
 * Jobs that ended before a time, except those that a webhook delivery or a stored response still refers to. By deadline, as
 * that is indexed: no job ends long after it.
 */
export function endedJobs(before: Date): Prisma.Sql {
  return Prisma.sql`stage = 'over' AND deadline_at < ${before} AND completed_at < ${before}
    AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE job_id = jobs.id)
    AND NOT EXISTS (SELECT 1 FROM stored_responses WHERE id = jobs.id)`
}

/** Drops input, metadata and results of jobs that ended before a time; returns their number. */
export async function forgetJobs(db: Database, endedBefore: Date, nowMs: number): Promise<number> {
  let forgotten = 0
  for (let page = 0; page < maxPages; page++) {
    const count = await db.$executeRaw`
      UPDATE jobs SET input = '{}', metadata = '{}', result = NULL, forgotten_at = ${new Date(nowMs)}
      WHERE id IN (
        SELECT id FROM jobs WHERE ${unforgottenJobs(endedBefore)}
        ORDER BY completed_at LIMIT ${maxPerUpdate} FOR UPDATE SKIP LOCKED)`
    forgotten += count
    if (count < maxPerUpdate) break
  }
  return forgotten
}
