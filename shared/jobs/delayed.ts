import { GatewayError } from '../base/errors.ts'
import type { Clock } from '../base/time.ts'
import type { Database } from '../io/db.ts'
import { pagesOfIds } from './id-pages.ts'
import { delayedKind, type Job } from './jobs.ts'

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
type Claim = Pick<Job, 'id' | 'attempts'>

/** A claim that nobody renewed for so long is void: its worker died. */
const leaseMs = 10_000
const withoutInput = { input: true } as const
const unfinished = { in: ['waiting', 'running'] } satisfies { in: Job['stage'][] }

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

  /** How many of an organisation's are not over. */
  unfinished(organisationId: string): Promise<number> {
    return this.#db.job.count({ where: { organisationId, kind: delayedKind, stage: unfinished } })
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

  /** Claims the job that must be done first of those that may be run now, for 10 s; null when there is none. */
  async claim(): Promise<Job | null> {
    return (await this.#claim('waiting')) ?? (await this.#claim('running'))
  }

  async #claim(stage: 'waiting' | 'running'): Promise<Job | null> {
    const now = new Date(this.#clock.now())
    const until = new Date(now.getTime() + leaseMs)
    const [claimed] = await this.#db.$queryRaw<Claim[]>`
      UPDATE jobs SET stage = 'running', status = 'in_progress', started_at = coalesce(started_at, ${now}),
        claimed_until = ${until}, attempts = attempts + 1
      WHERE id = (
        SELECT id FROM jobs
        WHERE kind = ${delayedKind} AND stage = ${stage}::job_stage AND deadline_at > ${now}
          AND (claimed_until IS NULL OR claimed_until <= ${now})
        ORDER BY deadline_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
      RETURNING id, attempts`
    if (!claimed) return null
    return this.#db.job.findFirst({ where: { ...claimed, stage: 'running' } })
  }

  /** Renews a claim; false when the job is over, or somebody else's. */
  async renew({ id, attempts }: Claim): Promise<boolean> {
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

  /** Gives a claimed job back, to be run at once or from `notBeforeMs` on; `failures` is how often its providers failed. */
  async putBack({ id, attempts }: Claim, failures: number, notBeforeMs: number | null = null): Promise<void> {
    await this.#db.job.updateMany({
      where: { id, attempts, stage: 'running' },
      data: {
        stage: 'waiting',
        claimedUntil: notBeforeMs === null ? null : new Date(notBeforeMs),
        operation: { failures },
      },
    })
  }

  /** Gives back the jobs whose worker died; their ids. */
  async releaseLost(): Promise<string[]> {
    const rows = await this.#db.job.updateManyAndReturn({
      where: { kind: delayedKind, stage: 'running', claimedUntil: { lt: new Date(this.#clock.now()) } },
      data: { stage: 'waiting', claimedUntil: null },
      select: { id: true },
    })
    return rows.map(({ id }) => id)
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
