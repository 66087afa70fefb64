import type { Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../io/db.ts'
import type { Scripts } from './scripts.ts'

/** What jobs hold in Redis while they are in flight, for kinds whose cost is known at the end only. */

/** Where Redis has the holds of all jobs: one sorted set of members. */
export const jobHolds = 'reservations:jobs'

/** A job that holds money while it is in flight. */
export type Held = { id: string; organisationId: string; keyId: string; month: string; holdNano: bigint }

/** A job's hold as Redis knows it. */
export function holdMember({ id, organisationId, keyId, month, holdNano }: Held): string {
  return [id, organisationId, keyId, month, holdNano].join('|')
}

/**
 * Holds for jobs what Redis does not hold for them yet; a reservation that a process made for one of them and did not hand
 * over becomes its hold. Twice is once. Answers how many changed.
 */
export async function takeHolds(scripts: Scripts, jobs: readonly Held[]): Promise<number> {
  if (jobs.length === 0) return 0
  return Number(await scripts.hold(['', jobs.length, ...jobs.map(holdMember)]))
}

/** Takes the holds of jobs that are over off their wallets. Twice is once. */
export async function dropHolds(scripts: Scripts, jobs: readonly Held[]): Promise<void> {
  const held = jobs.filter(({ holdNano }) => holdNano > 0n)
  if (held.length > 0) await scripts.hold(['', 0, ...held.map(holdMember)])
}

const pageSize = 1_000
const mostPages = 1_000

/** The jobs and batches in flight that hold money, of one organisation or of all, in pages. */
export async function* openHolds(db: Database, organisationId?: string): AsyncGenerator<Held[]> {
  const select = { id: true, organisationId: true, keyId: true, month: true, holdNano: true } as const
  const page = (after: string) => ({
    where: { holdNano: { gt: 0n }, id: { gt: after }, ...(organisationId !== undefined && { organisationId }) },
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
    for (let number = 0; number < mostPages; number++) {
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

/** Which of these jobs and batches may hold money still. */
export async function inFlight(db: Database, ids: readonly string[]): Promise<Set<string>> {
  const id = { in: [...ids] }
  const jobs = await db.job.findMany({ where: { id, stage: { not: 'over' } }, select: { id: true } })
  const batches = await db.batch.findMany({ where: { id, holdNano: { gt: 0n }, ...unfinished }, select: { id: true } })
  return new Set([...jobs, ...batches].map(row => row.id))
}
