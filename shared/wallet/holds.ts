import type { Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../io/db.ts'
import { spendAccounts } from './reservation.ts'
import type { Scripts } from './scripts.ts'

/** Holds of jobs in flight, in Redis, for kinds whose cost is known only at the end. */

/** The hold of a job in flight. */
export type JobHold = {
  id: string
  organisationId: string
  keyId: string
  /** The budgets that it counts in (`budgetIds`). */
  budgets: string | null
  month: string
  holdNano: bigint
}

/** The sorted-set member of a job's hold. */
export function holdMember({ id, organisationId, keyId, budgets, month, holdNano }: JobHold): string {
  return [id, organisationId, spendAccounts(keyId, budgets), month, holdNano].join('|')
}

const memberOf = (job: JobHold) => ({ member: holdMember(job) })

/**
 * Adds the holds of jobs that are missing in Redis. A reservation that a process made for one of them and has not transferred
 * becomes its hold. Idempotent. Returns how many changed.
 */
export async function addHolds(scripts: Scripts, jobs: readonly JobHold[]): Promise<number> {
  let changed = 0
  for (const [shard, own] of scripts.shards.group(jobs, job => job.organisationId))
    changed += Number(await scripts.hold({ instance: '', additions: own.map(memberOf), releases: [] }, shard))
  return changed
}

/** Releases the holds of ended jobs. Idempotent. */
export async function releaseHolds(scripts: Scripts, jobs: readonly JobHold[]): Promise<void> {
  const holding = jobs.filter(({ holdNano }) => holdNano > 0n)
  for (const [shard, own] of scripts.shards.group(holding, job => job.organisationId))
    await scripts.hold({ instance: '', additions: [], releases: own.map(memberOf) }, shard)
}

const pageSize = 1_000
const maxPages = 1_000

/** Lists the jobs and batches in flight that hold money, of some organisations or of all, in pages. */
export async function* listHolds(db: Database, organisationIds?: readonly string[]): AsyncGenerator<JobHold[]> {
  const select = {
    id: true,
    organisationId: true,
    keyId: true,
    budgets: true,
    month: true,
    holdNano: true,
  } as const
  const page = (after: string) => ({
    where: {
      holdNano: { gt: 0n },
      id: { gt: after },
      ...(organisationIds && { organisationId: { in: [...organisationIds] } }),
    },
    orderBy: { id: 'asc' } as const,
    take: pageSize,
  })
  const jobs = (after: string) => {
    const { where, ...rest } = page(after)
    const stage = { in: ['waiting' as const, 'starting' as const, 'running' as const] }
    return db.job.findMany({ ...rest, select, where: { ...where, stage } })
  }
  const batches = (after: string) => {
    const { where, ...rest } = page(after)
    return db.batch.findMany({ ...rest, select, where: { ...where, ...unfinished } })
  }
  for (const read of [jobs, batches]) {
    let after = ''
    for (let number = 0; number < maxPages; number++) {
      const rows = await read(after)
      if (rows.length > 0) yield rows
      if (rows.length < pageSize) break
      after = rows.at(-1)!.id
    }
  }
}

const unfinished = {
  status: { in: ['validating', 'in_progress', 'finalizing', 'cancelling'] },
} satisfies Prisma.BatchWhereInput

/** Returns those of the jobs and batches that may still hold money. */
export async function findInFlight(db: Database, ids: readonly string[]): Promise<Set<string>> {
  const id = { in: [...ids] }
  const jobs = await db.job.findMany({ where: { id, stage: { not: 'over' } }, select: { id: true } })
  const batches = await db.batch.findMany({ where: { id, holdNano: { gt: 0n }, ...unfinished }, select: { id: true } })
  return new Set([...jobs, ...batches].map(row => row.id))
}
