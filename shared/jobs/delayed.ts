import { GatewayError } from '../base/errors.ts'
import type { Clock } from '../base/time.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Database } from '../io/db.ts'
import { pagesOfIds } from './id-pages.ts'
import { delayedKind, type Job } from './jobs.ts'
import { maxOpenStarts } from './suspects.ts'

/** A delayed job as everybody but its run needs it: without its request, which may be long. */
export type DelayedJob = Omit<Job, 'input'>

/** What a run needs of the request, as its row keeps it until the end. */
export type DelayedInput = {
  /** The body as JSON text: Postgres' own JSON cannot hold every text. */
  body: string
  /** Parts per million off the price. */
  discountPpm: number
  /** Output tokens that the hold covers, and whether that is fewer than were asked for. */
  outputTokens: number
  clamped: boolean
}

type Owner = Pick<Job, 'organisationId' | 'environment'>
type Page = { limit: number; after?: string; order: 'asc' | 'desc' }
/** A job that somebody claimed: the number of the claim tells it from the next. */
type Claim = Pick<Job, 'id' | 'attempts' | 'openStarts'>
type Claimed = { isWork: boolean; id: string | null; attempts: number | null; openStarts: number | null }

/** Whose jobs a worker takes: none of the organisations that are `full`, no test keys' and no suspects where there is no room. */
export type ClaimLimits = { full: readonly string[]; isTestFull: boolean; suspects: boolean }
const noLimits: ClaimLimits = { full: [], isTestFull: false, suspects: true }
const claimTries = 5
const pausesAtOnce = 1_000

/** A claim that nobody renewed for so long is void: its worker died. */
const leaseMs = 10_000
const withoutInput = { input: true } as const

/**
 * The rows of delayed jobs while they wait and run; `Jobs` writes their beginning and their end. One that runs belongs to
 * whoever claimed it last.
 */
export class DelayedJobs {
  readonly #db: Database
  readonly #clock: Clock

  constructor({ db, clock }: { db: Database; clock: Clock }) {
    this.#db = db
    this.#clock = clock
  }

  /** An organisation's job; null also for another organisation's. Test keys see test jobs, live keys live ones. */
  find(id: string, { organisationId, environment }: Owner): Promise<DelayedJob | null> {
    const where = { id, organisationId, environment, kind: delayedKind }
    return this.#db.job.findFirst({ where, omit: withoutInput })
  }

  read(id: string): Promise<DelayedJob | null> {
    return this.#db.job.findUnique({ where: { id }, omit: withoutInput })
  }

  /** A page of an organisation's jobs by age. `after` is a job's id. Throws 404 for an unknown one. */
  async list(owner: Owner, { limit, after, order }: Page): Promise<DelayedJob[]> {
    const { organisationId, environment } = owner
    const last = after === undefined ? null : await this.find(after, owner)
    if (after !== undefined && !last)
      throw new GatewayError('not_found', 'There is no job of that id to list after.', { param: 'after' })
    const beyond = order === 'desc' ? 'lt' : 'gt'
    return this.#db.job.findMany({
      where: {
        organisationId,
        environment,
        kind: delayedKind,
        ...(last && {
          OR: [{ createdAt: { [beyond]: last.createdAt } }, { createdAt: last.createdAt, id: { [beyond]: last.id } }],
        }),
      },
      omit: withoutInput,
      orderBy: [{ createdAt: order }, { id: order }],
      take: limit,
    })
  }

  /**
   * Claims a job that may be run now, for 10 s: of the organisation and environment that has the fewest running, the one with
   * the earliest deadline. Its `openStarts` does not count the start that the claim is; that of a suspect counts from `begin`
   * on. Null when there is none, `blocked` when there is none that `limits` leave.
   */
  async claim(limits: ClaimLimits = noLimits): Promise<Job | null | 'blocked'> {
    await this.#endPauses()
    for (let tries = 1; tries <= claimTries; tries++) {
      const { isWork, id, attempts, openStarts } = await this.#claimNext(limits)
      if (id !== null) {
        const job = await this.#db.job.findFirst({ where: { id, attempts: attempts!, stage: 'running' } })
        return job && { ...job, openStarts: openStarts! }
      }
      // Others have just taken the only one of whose turn it was.
      if (isWork) continue
      const { full, isTestFull, suspects } = limits
      const isLimited = full.length > 0 || isTestFull || !suspects
      return isLimited && (await this.#isAnyRunnable()) ? 'blocked' : null
    }
    return 'blocked'
  }

  async #claimNext({ full, isTestFull, suspects }: ClaimLimits): Promise<Claimed> {
    const now = new Date(this.#clock.now())
    const until = new Date(now.getTime() + leaseMs)
    // As the index has it.
    const ready = Prisma.sql`kind = 'async' AND stage = 'waiting' AND claimed_until IS NULL`
    const runnable = Prisma.sql`${ready} AND deadline_at > ${now} AND open_starts < ${suspects ? maxOpenStarts : 1}`
    const [claimed] = await this.#db.$queryRaw<[Claimed]>`
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
      SELECT EXISTS (SELECT 1 FROM next) AS "isWork", id, attempts, open_starts AS "openStarts"
      FROM (SELECT 1) one LEFT JOIN claimed ON true`
    return claimed
  }

  /** Whether a job waits that could be run now. */
  async #isAnyRunnable(): Promise<boolean> {
    const now = new Date(this.#clock.now())
    const rows = await this.#db.$queryRaw<object[]>`
      SELECT 1 FROM jobs
      WHERE kind = 'async' AND stage = 'waiting' AND claimed_until IS NULL AND deadline_at > ${now} LIMIT 1`
    return rows.length > 0
  }

  /** Has jobs whose pause is over stand beside those that never paused: by the index claims go by. */
  async #endPauses(): Promise<void> {
    await this.#db.$executeRaw`
      UPDATE jobs SET claimed_until = NULL WHERE id IN (
        SELECT id FROM jobs
        WHERE kind = 'async' AND stage = 'waiting' AND claimed_until <= ${new Date(this.#clock.now())}
        LIMIT ${pausesAtOnce} FOR UPDATE SKIP LOCKED)`
  }

  /** Counts the start of a claimed suspect, before it is run; false when it is over, or somebody else's. */
  async begin({ id, attempts, openStarts }: Claim): Promise<boolean> {
    const where = { id, attempts, stage: 'running' } as const
    const { count } = await this.#db.job.updateMany({ where, data: { openStarts: openStarts + 1 } })
    return count === 1
  }

  /** Renews a claim; false when the job is over, or somebody else's. */
  async renew({ id, attempts }: Pick<Job, 'id' | 'attempts'>): Promise<boolean> {
    const claimedUntil = new Date(this.#clock.now() + leaseMs)
    const where = { id, attempts, stage: 'running' } as const
    const { count } = await this.#db.job.updateMany({ where, data: { claimedUntil } })
    return count === 1
  }

  /** Notes which call of a claimed job is under way, from now on. */
  async noteCall({ id, attempts, operation }: Claim & Pick<Job, 'operation'>, call: CallTarget): Promise<void> {
    const noted = { failures: failuresOf({ operation }), call: { ...call, atMs: this.#clock.now() } }
    await this.#db.job.updateMany({ where: { id, attempts, stage: 'running' }, data: { operation: noted } })
  }

  /**
   * Gives a claimed job back, to be run at once or from `notBeforeMs` on; `failures` is how often its providers failed. Its
   * start has ended.
   */
  async putBack(
    { id, attempts, openStarts }: Claim,
    failures: number,
    notBeforeMs: number | null = null,
  ): Promise<void> {
    await this.#db.job.updateMany({
      where: { id, attempts, stage: 'running' },
      data: {
        stage: 'waiting',
        openStarts,
        claimedUntil: notBeforeMs === null ? null : new Date(notBeforeMs),
        operation: { failures },
      },
    })
  }

  /** Gives back the jobs whose worker died; their ids. */
  async releaseLost(): Promise<string[]> {
    const rows = await this.#db.job.updateManyAndReturn({
      where: { ...this.#lost(), openStarts: { lt: maxOpenStarts } },
      data: { stage: 'waiting', claimedUntil: null },
      select: { id: true },
    })
    return rows.map(({ id }) => id)
  }

  /** Ids of the jobs whose worker died once too often. */
  async lostForGood(): Promise<string[]> {
    const where = { ...this.#lost(), openStarts: { gte: maxOpenStarts } }
    const rows = await this.#db.job.findMany({ where, select: { id: true } })
    return rows.map(({ id }) => id)
  }

  #lost() {
    const claimedUntil = { lt: new Date(this.#clock.now()) }
    return { kind: delayedKind, stage: 'running', claimedUntil } satisfies Prisma.JobWhereInput
  }

  /** Ids of the jobs that may be run now and came before a moment, in pages. */
  waiting(before: Date): AsyncGenerator<string[]> {
    const now = new Date(this.#clock.now())
    return pagesOfIds(({ after, take }) =>
      this.#db.job.findMany({
        where: {
          ...{ kind: delayedKind, stage: 'waiting', id: { gt: after }, createdAt: { lt: before } },
          OR: [{ claimedUntil: null }, { claimedUntil: { lte: now } }],
        },
        select: { id: true },
        orderBy: { id: 'asc' },
        take,
      }),
    )
  }
}

/** Whom a job's call goes to. */
type CallTarget = { model: string; provider: string }

/** The call of a running job that a provider may have; null = there is none. */
export function callOf({ operation }: Pick<Job, 'operation'>): (CallTarget & { atMs: number }) | null {
  return (operation as { call?: CallTarget & { atMs: number } } | null)?.call ?? null
}

/** How often the providers of a job have failed it. */
export function failuresOf({ operation }: Pick<Job, 'operation'>): number {
  return (operation as { failures: number } | null)?.failures ?? 0
}
