import { GatewayError } from '../base/errors.ts'
import type { Clock } from '../base/time.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../io/db.ts'
import { pagesOfIds, rowsAfter } from '../io/keyset.ts'
import { delayedKind, type Job } from '../jobs/jobs.ts'
import { maxOpenStarts } from '../queues/crash-suspect-limiter.ts'
import {
  type CallTarget,
  type DelayedJob,
  failuresOf,
  isBackground,
  type NotedCall,
  responsePrefix,
} from './delayed-row.ts'

type Owner = Pick<Job, 'organisationId' | 'environment'>
type Page = { limit: number; after?: string; order: 'asc' | 'desc' }
/** A claimed job: `attempts` numbers its claims, and acts as the fencing token. */
type Claim = Pick<Job, 'id' | 'attempts' | 'openStarts'>
type ClaimRow = { hasWork: boolean; id: string | null; attempts: number | null; openStarts: number | null }

/** Which jobs a worker may claim: none of `full` organisations, of test keys if `isTestFull`, or suspects unless `suspects`. */
type ClaimLimits = { full: readonly string[]; isTestFull: boolean; suspects: boolean }
const noLimits: ClaimLimits = { full: [], isTestFull: false, suspects: true }
const claimTries = 5
const maxPausesPerUpdate = 1_000
/** Jobs of dead workers that one sweep takes: all of a fleet at once could be more than fit into memory. */
const maxLost = 500

/** A claim's lease; without renewal it expires: its worker died. */
const leaseMs = 10_000
const withoutInput = { input: true } as const

/**
 * The rows of delayed jobs while they wait and run; `Jobs` inserts and ends them. A running job belongs to its latest claim.
 */
export class DelayedJobs {
  readonly #db: Database
  readonly #clock: Clock
  /** The jobs that this process runs. */
  readonly #running = new Set<string>()

  constructor({ db, clock }: { db: Database; clock: Clock }) {
    this.#db = db
    this.#clock = clock
  }

  /** An organisation's job; null also for another organisation's. Test keys see test jobs, live keys live ones. */
  async find(id: string, { organisationId, environment }: Owner): Promise<DelayedJob | null> {
    if (isBackground({ id })) return null
    const where = { id, organisationId, environment, kind: delayedKind }
    return this.#db.job.findFirst({ where, omit: withoutInput })
  }

  read(id: string): Promise<DelayedJob | null> {
    return this.#db.job.findUnique({ where: { id }, omit: withoutInput })
  }

  /** A page of an organisation's jobs by creation time. `after` is a job's id. Throws 404 for an unknown id. */
  async list(owner: Owner, { limit, after, order }: Page): Promise<DelayedJob[]> {
    const { organisationId, environment } = owner
    const last = after === undefined ? null : await this.find(after, owner)
    if (after !== undefined && !last)
      throw new GatewayError('not_found', 'There is no job of that id to list after.', { param: 'after' })
    return this.#db.job.findMany({
      where: {
        organisationId,
        environment,
        kind: delayedKind,
        NOT: { id: { startsWith: responsePrefix } },
        ...(last && rowsAfter(last, order)),
      },
      omit: withoutInput,
      orderBy: [{ createdAt: order }, { id: order }],
      take: limit,
    })
  }

  /**
   * Claims a runnable job for 10 s: the one with the earliest deadline of the organisation and environment with the fewest
   * running jobs. Its `openStarts` excludes the start of this claim; a suspect's start counts from `begin` on. Null when there
   * is none, `blocked` when `limits` exclude all that there are.
   */
  async claim(limits: ClaimLimits = noLimits): Promise<Job | null | 'blocked'> {
    await this.#endPauses()
    for (let tries = 1; tries <= claimTries; tries++) {
      const { hasWork, id, attempts, openStarts } = await this.#claimNext(limits)
      if (id !== null) {
        const job = await this.#db.job.findFirst({ where: { id, attempts: attempts!, stage: 'running' } })
        return job && { ...job, openStarts: openStarts! }
      }
      // Other workers have just claimed the last runnable job of the chosen owner.
      if (hasWork) continue
      const { full, isTestFull, suspects } = limits
      const isLimited = full.length > 0 || isTestFull || !suspects
      return isLimited && (await this.#isAnyRunnable()) ? 'blocked' : null
    }
    return 'blocked'
  }

  async #claimNext({ full, isTestFull, suspects }: ClaimLimits): Promise<ClaimRow> {
    const now = new Date(this.#clock.now())
    const until = new Date(now.getTime() + leaseMs)
    // The predicate of the partial index.
    const ready = Prisma.sql`kind = 'async' AND stage = 'waiting' AND claimed_until IS NULL`
    const runnable = Prisma.sql`${ready} AND deadline_at > ${now} AND open_starts < ${suspects ? maxOpenStarts : 1}`
    const [claimed] = await this.#db.$queryRaw<[ClaimRow]>`
      WITH RECURSIVE owners AS (
        (SELECT organisation_id, environment FROM jobs WHERE ${ready} ORDER BY 1, 2, deadline_at, id LIMIT 1)
        UNION ALL
        SELECT n.organisation_id, n.environment FROM owners o CROSS JOIN LATERAL (
          SELECT organisation_id, environment FROM jobs
          WHERE ${ready} AND (organisation_id, environment) > (o.organisation_id, o.environment)
          ORDER BY 1, 2, deadline_at, id LIMIT 1) n
      ), running AS (
        SELECT organisation_id, environment, count(*) AS jobs FROM jobs
        WHERE kind = 'async' AND stage = 'running' GROUP BY 1, 2
      ), next AS (
        SELECT o.organisation_id, o.environment FROM owners o LEFT JOIN running r USING (organisation_id, environment)
        CROSS JOIN LATERAL (
          SELECT deadline_at, id FROM jobs j
          WHERE j.organisation_id = o.organisation_id AND j.environment = o.environment AND ${runnable}
          ORDER BY deadline_at, id LIMIT 1) first
        WHERE o.organisation_id <> ALL(${[...full]}::text[]) AND NOT (${isTestFull} AND o.environment = 'test')
        ORDER BY coalesce(r.jobs, 0), first.deadline_at, first.id LIMIT 1
      ), chosen AS (
        SELECT id, open_starts FROM jobs
        WHERE (organisation_id, environment) = (SELECT organisation_id, environment FROM next) AND ${runnable}
        ORDER BY deadline_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
      ), claimed AS (
        UPDATE jobs SET stage = 'running', status = 'in_progress', started_at = coalesce(started_at, ${now}),
          claimed_until = ${until}, attempts = attempts + 1,
          open_starts = CASE WHEN chosen.open_starts = 0 THEN 1 ELSE chosen.open_starts END
        FROM chosen WHERE jobs.id = chosen.id
        RETURNING jobs.id, attempts, chosen.open_starts
      )
      SELECT EXISTS (SELECT 1 FROM next) AS "hasWork", id, attempts, open_starts AS "openStarts"
      FROM (SELECT 1) one LEFT JOIN claimed ON true`
    return claimed
  }

  /** Whether any job is runnable now. */
  async #isAnyRunnable(): Promise<boolean> {
    const now = new Date(this.#clock.now())
    const rows = await this.#db.$queryRaw<object[]>`
      SELECT 1 FROM jobs
      WHERE kind = 'async' AND stage = 'waiting' AND claimed_until IS NULL AND deadline_at > ${now} LIMIT 1`
    return rows.length > 0
  }

  /** Clears expired pauses, so that these jobs match the partial index that claims use. */
  async #endPauses(): Promise<void> {
    await this.#db.$executeRaw`
      UPDATE jobs SET claimed_until = NULL WHERE id IN (
        SELECT id FROM jobs
        WHERE kind = 'async' AND stage = 'waiting' AND claimed_until <= ${new Date(this.#clock.now())}
        LIMIT ${maxPausesPerUpdate} FOR UPDATE SKIP LOCKED)`
  }

  /**
   * Runs a claimed job. Meanwhile this process does not count the job as lost, although its lease may have expired: all
   * of the process may have stood still.
   */
  async run<T>({ id }: Pick<Job, 'id'>, work: () => Promise<T>): Promise<T> {
    this.#running.add(id)
    try {
      return await work()
    } finally {
      this.#running.delete(id)
    }
  }

  /** Counts the start of a claimed suspect before its run; false when the job is over or the claim was lost. */
  async begin({ id, attempts, openStarts }: Claim): Promise<boolean> {
    const where = { id, attempts, stage: 'running' } as const
    const { count } = await this.#db.job.updateMany({ where, data: { openStarts: openStarts + 1 } })
    return count === 1
  }

  /**
   * Renews a claim, and tells whether the job's cancellation was requested; `lost` when the job is over or the claim
   * was lost.
   */
  async renew({ id, attempts }: Pick<Job, 'id' | 'attempts'>): Promise<'renewed' | 'cancelled' | 'lost'> {
    const claimedUntil = new Date(this.#clock.now() + leaseMs)
    const [job] = await this.#db.job.updateManyAndReturn({
      where: { id, attempts, stage: 'running' },
      data: { claimedUntil },
      select: { cancelRequestedAt: true },
    })
    if (!job) return 'lost'
    return job.cancelRequestedAt ? 'cancelled' : 'renewed'
  }

  /**
   * Records the target and time of a claimed job's call before it is made. False when it must not be made: the job is
   * over or cancelled, or the claim was lost.
   */
  async noteCall({ id, attempts, operation }: Claim & Pick<Job, 'operation'>, call: CallTarget): Promise<boolean> {
    const noted = { ...call, atMs: this.#clock.now(), settles: true } satisfies NotedCall
    const { count } = await this.#db.job.updateMany({
      where: runningClaim({ id, attempts }),
      data: { operation: { failures: failuresOf({ operation }), call: noted } },
    })
    return count === 1
  }

  /**
   * Requests the cancellation of a job whose call its worker will settle: from now on it is cancelled for its owner.
   * Null when it has no such call, or was cancelled before.
   */
  async requestCancel(id: string): Promise<DelayedJob | null> {
    const now = new Date(this.#clock.now())
    const [job] = await this.#db.job.updateManyAndReturn({
      where: {
        id,
        kind: delayedKind,
        stage: 'running',
        environment: 'live',
        cancelRequestedAt: null,
        operation: { path: ['call', 'settles'], equals: true },
      },
      data: { status: 'cancelled', cancelRequestedAt: now, completedAt: now },
      omit: withoutInput,
    })
    return job ?? null
  }

  /**
   * Releases a claimed job, to be run at once or from `notBeforeMs` on, and uncounts its start; `failures` counts its
   * provider failures. False when it is over or cancelled, or the claim was lost.
   */
  async requeue(
    { id, attempts, openStarts }: Claim,
    failures: number,
    notBeforeMs: number | null = null,
  ): Promise<boolean> {
    const { count } = await this.#db.job.updateMany({
      where: runningClaim({ id, attempts }),
      data: {
        stage: 'waiting',
        openStarts,
        claimedUntil: notBeforeMs === null ? null : new Date(notBeforeMs),
        operation: { failures },
      },
    })
    return count === 1
  }

  /**
   * Requeues jobs whose worker died, at most `maxLost`; returns their ids. Their calls are not charged: they are made
   * again.
   */
  async requeueLost(): Promise<string[]> {
    const rows = await this.#db.$queryRaw<{ id: string }[]>`
      UPDATE jobs SET stage = 'waiting', claimed_until = NULL, operation = operation - 'call'
      WHERE id IN (
        SELECT id FROM jobs
        WHERE kind = ${delayedKind} AND stage = 'running' AND claimed_until < ${new Date(this.#clock.now())}
          AND cancel_requested_at IS NULL AND open_starts < ${maxOpenStarts} AND id <> ALL(${[...this.#running]}::text[])
        ORDER BY claimed_until LIMIT ${maxLost} FOR UPDATE SKIP LOCKED)
      RETURNING id`
    return rows.map(({ id }) => id)
  }

  /** Ids of the jobs whose workers died too often, at most `maxLost`. */
  listPoisoned(): Promise<string[]> {
    return this.#listLost({ cancelRequestedAt: null, openStarts: { gte: maxOpenStarts } })
  }

  /** Ids of the cancelled jobs whose worker died before it settled their call, at most `maxLost`. */
  listUnsettled(): Promise<string[]> {
    return this.#listLost({ cancelRequestedAt: { not: null } })
  }

  async #listLost(where: Prisma.JobWhereInput): Promise<string[]> {
    const rows = await this.#db.job.findMany({
      where: {
        ...where,
        id: { notIn: [...this.#running] },
        kind: delayedKind,
        stage: 'running',
        claimedUntil: { lt: new Date(this.#clock.now()) },
      },
      select: { id: true },
      orderBy: { claimedUntil: 'asc' },
      take: maxLost,
    })
    return rows.map(({ id }) => id)
  }

  /** Ids of the runnable jobs that were created before a time, in pages. */
  listRunnable(before: Date): AsyncGenerator<string[]> {
    const now = new Date(this.#clock.now())
    return pagesOfIds(({ after, take }) =>
      this.#db.job.findMany({
        where: {
          kind: delayedKind,
          stage: 'waiting',
          id: { gt: after },
          createdAt: { lt: before },
          OR: [{ claimedUntil: null }, { claimedUntil: { lte: now } }],
        },
        select: { id: true },
        orderBy: { id: 'asc' },
        take,
      }),
    )
  }
}

/** A claimed job that is neither over nor cancelled. */
function runningClaim({ id, attempts }: Pick<Claim, 'id' | 'attempts'>) {
  return { id, attempts, stage: 'running', cancelRequestedAt: null } satisfies Prisma.JobWhereInput
}
