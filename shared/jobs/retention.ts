import { GatewayError } from '../base/errors.ts'
import { type Job, Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../io/db.ts'
import { rowsAfter } from '../io/keyset.ts'

/** What becomes of jobs that are over. Their charges stay in the ledger. */

type Owner = Pick<Job, 'organisationId' | 'environment'>
type Page = { limit: number; after?: string; order: 'asc' | 'desc' }

const maxPerUpdate = 1_000
const maxPages = 100

/** A page of an organisation's jobs of one kind, by creation time. Throws 404 for an unknown `after`. */
export async function listJobs(
  db: Database,
  { organisationId, environment }: Owner,
  kind: string,
  { limit, after, order }: Page,
): Promise<Job[]> {
  const shown = { organisationId, environment, kind }
  // A job that was deleted since is still a valid cursor.
  const last = after === undefined ? null : await db.job.findFirst({ where: { ...shown, id: after } })
  if (after !== undefined && !last)
    throw new GatewayError('not_found', 'There is no job of that id to list after.', { param: 'after' })
  return db.job.findMany({
    where: {
      ...shown,
      deletedAt: null,
      ...(last && rowsAfter(last, order)),
    },
    orderBy: [{ createdAt: order }, { id: order }],
    take: limit,
  })
}

/** Deletes a job that is over for its owner, and drops its input, metadata and result; false when it is not over. */
export async function deleteJob(db: Database, id: string, nowMs: number): Promise<boolean> {
  const now = new Date(nowMs)
  const { count } = await db.job.updateMany({
    where: { id, stage: 'over', deletedAt: null },
    data: { input: {}, metadata: {}, result: Prisma.DbNull, forgottenAt: now, deletedAt: now },
  })
  return count === 1
}

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

/** Batches that ended before a time, except those that a webhook delivery still refers to. */
export function endedBatches(before: Date): Prisma.Sql {
  return Prisma.sql`status IN ('completed', 'failed', 'expired', 'cancelled') AND deadline_at < ${before}
    AND coalesce(completed_at, failed_at, expired_at, cancelled_at) < ${before}
    AND NOT EXISTS (SELECT 1 FROM webhook_deliveries WHERE batch_id = batches.id)`
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
