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

/** The jobs in flight that hold money, of one organisation or of all, in pages. */
export async function* openHolds(db: Database, organisationId?: string): AsyncGenerator<Held[]> {
  let after = ''
  for (let page = 0; page < mostPages; page++) {
    const rows = await db.job.findMany({
      where: {
        stage: { in: ['waiting', 'starting', 'running'] },
        holdNano: { gt: 0n },
        id: { gt: after },
        ...(organisationId !== undefined && { organisationId }),
      },
      select: { id: true, organisationId: true, keyId: true, month: true, holdNano: true },
      orderBy: { id: 'asc' },
      take: pageSize,
    })
    if (rows.length > 0) yield rows
    if (rows.length < pageSize) return
    after = rows.at(-1)!.id
  }
}
