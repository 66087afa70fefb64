import { isDeepStrictEqual } from 'node:util'
import type { Quotas } from '../base/quotas.ts'
import type { Clock } from '../base/time.ts'
import type { Job, Prisma } from '../generated/prisma/client.ts'
import type { Beside, Connection, Database } from '../io/db.ts'
import { queuedKinds } from '../kinds/index.ts'
import { chargeJob, type JobCall, logJob, logJobAttempt, logJobEnd, settleJob } from '../wallet/jobs.ts'
import type { RoutedAttempt } from '../wallet/routing-record.ts'
import { pagesOfIds } from './id-pages.ts'
import { tooManyUnfinished } from './unfinished.ts'
import type { Webhooks } from './webhooks.ts'

export type { Job }

/** The kind of jobs that are delayed requests; all others are media. */
export const delayedKind = 'async'

const lookedAt = {
  ...{ id: true, kind: true, environment: true, provider: true, credentialId: true },
  ...{ operation: true, startedAt: true, createdAt: true },
} as const
/** A job as a look at it needs it: hundreds are read at a time. */
export type RunningJob = Pick<Job, keyof typeof lookedAt>

/** What a job is made of; `chargeNano` is booked with it, `holdNano` only remembered. Test jobs have neither. */
export type NewJob = Pick<
  Job,
  | 'id'
  | 'organisationId'
  | 'keyId'
  | 'requestId'
  | 'environment'
  | 'kind'
  | 'model'
  | 'month'
  | 'capNano'
  | 'holdNano'
  | 'webhookUrl'
> & {
  input: object
  metadata: object
  chargeNano: bigint | null
  createdAt?: Date
  /** Nobody takes it up before this moment. */
  claimedUntil?: Date | null
  deadlineAt: Date
}

/** How a job ends. `costNano` is what a held job costs; `refund` gives back what was charged at its creation. */
export type End = {
  status: 'completed' | 'failed' | 'cancelled' | 'expired'
  /** As in the request log: 200, or what a direct request would have been answered with. */
  logStatus: number
  result?: object
  error?: { code: string; message: string }
  costNano?: bigint
  /** What was reserved for it beside its hold. */
  extraNano?: bigint
  refund: boolean
  /** When the results are deleted. */
  expiresAt?: Date
  /** The call that a delayed request came to. */
  call?: JobCall
}
export type Ended = { job: Job; deliveryId: string | null }

/**
 * The rows of slow work, and the only hand that writes them. Every step is a conditional claim: what was done already, by
 * whomever, is not done again.
 */
export class Jobs {
  readonly #db: Database
  readonly #webhooks: Webhooks
  readonly #clock: Clock
  readonly #startLeaseMs: number
  readonly #quotas: Pick<Quotas, 'live' | 'test'>

  constructor(options: {
    db: Database
    webhooks: Webhooks
    clock: Clock
    /** Nobody else may take up a job that is being started for so long: longer than a start takes. */
    startLeaseMs: number
    quotas: Pick<Quotas, 'live' | 'test'>
  }) {
    this.#db = options.db
    this.#webhooks = options.webhooks
    this.#clock = options.clock
    this.#startLeaseMs = options.startLeaseMs
    this.#quotas = options.quotas
  }

  /**
   * Writes a job with its charge, its line in the request log and whatever `beside` writes: all or nothing. Throws what that
   * throws, and 429 when the organisation has too many unfinished ones.
   */
  create(newJob: NewJob, beside?: Beside<Job>): Promise<Job> {
    const { chargeNano, input, metadata, createdAt = new Date(this.#clock.now()), ...fields } = newJob
    return this.#db.$transaction(async tx => {
      await this.#assertRoom(tx, fields)
      const job = await tx.job.create({ data: { ...fields, input, metadata, costNano: chargeNano, createdAt } })
      await chargeJob(tx, job, chargeNano ?? 0n, chargeNano ?? 0n, createdAt.getTime())
      await logJob(tx, job, chargeNano ?? 0n)
      await beside?.(tx, job)
      return job
    })
  }

  /** Nobody else of the same owner writes a job between this count and the end of the transaction. */
  async #assertRoom(tx: Connection, { organisationId, environment, kind }: Pick<Job, keyof Owner | 'kind'>) {
    const max = this.#quotas[environment].unfinishedJobs
    const isDelayed = kind === delayedKind
    const name = `jobs ${organisationId} ${environment} ${isDelayed}`
    await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${name}, 0))`
    const kinds = isDelayed ? [delayedKind] : Object.keys(queuedKinds)
    const [row] = await tx.$queryRaw<[{ open: bigint }]>`
      SELECT count(*) AS open FROM jobs WHERE organisation_id = ${organisationId}
        AND environment = ${environment}::environment AND kind = ANY(${kinds}) AND stage <> 'over'`
    if (row.open < max) return
    throw tooManyUnfinished(`${max.toLocaleString('en')} unfinished jobs`)
  }

  /** An organisation's job; null also for another organisation's. Test keys see test jobs, live keys live ones. */
  find(id: string, { organisationId, environment }: Owner): Promise<Job | null> {
    return this.#db.job.findFirst({ where: { id, organisationId, environment, deletedAt: null } })
  }

  read(id: string): Promise<Job | null> {
    return this.#db.job.findUnique({ where: { id } })
  }

  /** The running ones of these jobs, as far as a look needs them. */
  running(ids: readonly string[]): Promise<RunningJob[]> {
    return this.#db.job.findMany({ where: { id: { in: [...ids] }, stage: 'running' }, select: lookedAt })
  }

  /** Claims the start of a job at a provider, once, and counts it; null when it is taken, running or over. */
  async claimStart(id: string, provider: string, credentialId: string | null): Promise<Job | null> {
    const claimedUntil = new Date(this.#clock.now() + this.#startLeaseMs)
    return this.#change(
      { id, stage: 'waiting' },
      { stage: 'starting', provider, credentialId, claimedUntil, attempts: { increment: 1 }, openStarts: one },
    )
  }

  /** Claims a job whose start nobody heard the end of, and counts that: whoever began it died. */
  async claimLostStart(id: string): Promise<Job | null> {
    const nowMs = this.#clock.now()
    return this.#change(
      { id, stage: 'starting', claimedUntil: { lt: new Date(nowMs) } },
      { claimedUntil: new Date(nowMs + this.#startLeaseMs), openStarts: one },
    )
  }

  /** Counts that the results of a running job are about to be taken in; null when it is not running. */
  beginFinish(id: string): Promise<Job | null> {
    return this.#change({ id, stage: 'running' }, { openStarts: one })
  }

  /** A start or a finish has ended, or its process is about to be stopped: it no longer counts. */
  async endStart(id: string): Promise<void> {
    const where = { id, stage: { in: ['starting', 'running'] }, openStarts: { gt: 0 } } satisfies Prisma.JobWhereInput
    await this.#change(where, { openStarts: { decrement: 1 } })
  }

  /** Moves a claim to another provider, before anything was sent there; null when the claim is no longer ours. */
  async moveStart(claimed: Claim, provider: string, credentialId: string | null): Promise<Job | null> {
    const claimedUntil = new Date(this.#clock.now() + this.#startLeaseMs)
    return this.#change(ours(claimed), { provider, credentialId, claimedUntil, attempts: { increment: 1 } })
  }

  /** Notes that a job is to be cancelled once its start under way is known; null when it went on. */
  requestCancel(id: string): Promise<Job | null> {
    return this.#change({ id, stage: 'starting' }, { cancelRequestedAt: new Date(this.#clock.now()) })
  }

  /** Gives a claimed start back: it had no effect. */
  async unstart(claimed: Claim): Promise<void> {
    await this.#change(ours(claimed), { stage: 'waiting', claimedUntil: null, openStarts: { decrement: 1 } })
  }

  /** Lets somebody else take up a start whose outcome is not known, at once. */
  async yieldStart(claimed: Claim): Promise<void> {
    await this.#change(ours(claimed), { claimedUntil: new Date(this.#clock.now()), openStarts: { decrement: 1 } })
  }

  /** Notes what a provider said to the start of a job, for the request log. */
  noteAttempt(job: Pick<Job, 'id' | 'createdAt'>, attempt: RoutedAttempt): Promise<void> {
    return logJobAttempt(this.#db, job, attempt)
  }

  /**
   * The provider works; null when the job was cancelled or given up meanwhile. Saying it again of the same work changes
   * nothing: whoever could not hear the answer may repeat it.
   */
  async started({ id, startedAt }: Pick<Job, 'id' | 'startedAt'>, operation: object): Promise<Job | null> {
    const running = { stage: 'running', status: 'in_progress', operation, claimedUntil: null, openStarts: 0 } as const
    const now = new Date(this.#clock.now())
    const job = await this.#change({ id, stage: 'starting' }, { ...running, startedAt: startedAt ?? now })
    if (job) return job
    const known = await this.read(id)
    return known?.stage === 'running' && isDeepStrictEqual(known.operation, operation) ? known : null
  }

  /** One part of the work is done and another has to be started. */
  async nextPart(id: string, operation: object, progress: number): Promise<Job | null> {
    return this.#change({ id, stage: 'running' }, { stage: 'waiting', operation, progress, openStarts: 0 })
  }

  /** Writes the progress of many running jobs at once; it never goes back. */
  async progressed(reports: readonly { id: string; progress: number }[]): Promise<void> {
    if (reports.length === 0) return
    await this.#db.$executeRaw`
      UPDATE jobs SET progress = p.progress
      FROM jsonb_to_recordset(${JSON.stringify(reports)}::jsonb) AS p(id text, progress int)
      WHERE jobs.id = p.id AND jobs.stage = 'running' AND jobs.progress < p.progress`
  }

  /**
   * Ends a job: its last status, its money, its line in the request log and its webhook in one transaction. Null when it is
   * over already, or no longer at the `stage` that the caller knows.
   */
  end(id: string, end: End, stage?: Job['stage']): Promise<Ended | null> {
    const nowMs = this.#clock.now()
    return this.#db.$transaction(async tx => {
      const [job] = await tx.job.updateManyAndReturn({
        where: { id, stage: stage ?? { in: [...inFlight] } },
        data: {
          status: end.status,
          stage: 'over',
          claimedUntil: null,
          completedAt: new Date(nowMs),
          ...(end.status === 'completed' && { progress: 100 }),
          ...(end.result && { result: end.result }),
          ...(end.error && { error: end.error }),
          ...(end.expiresAt && { expiresAt: end.expiresAt }),
          ...(end.call && { model: end.call.model, provider: end.call.provider }),
        },
      })
      if (!job) return null
      const costNano = await settleJob(tx, job, end, nowMs)
      // A request may be long and is private: it is not kept for longer than it is of use.
      const forgotten = job.kind === delayedKind && { input: {} }
      const ended = await tx.job.update({ where: { id }, data: { costNano, ...forgotten } })
      const { logStatus: status, error, call } = end
      const { provider, attempts, organisationId, webhookUrl: url } = job
      const errorCode = error?.code ?? null
      await logJobEnd(tx, job, { provider, status, errorCode, costNano, nowMs, attempts, call })
      const type = `job.${end.status}`
      const deliveryId = url && (await this.#webhooks.insert(tx, { organisationId, jobId: id, type, url, nowMs }))
      return { job: ended, deliveryId }
    })
  }

  /** Ids of jobs past their deadline, at most `most`. */
  overdue(most: number): Promise<string[]> {
    return this.#ids({ stage: { in: [...inFlight] }, deadlineAt: { lt: new Date(this.#clock.now()) } }, most)
  }

  /** Ids of jobs whose start was cut off, at most `most`. */
  lostStarts(most: number): Promise<string[]> {
    return this.#ids({ stage: 'starting', claimedUntil: { lt: new Date(this.#clock.now()) } }, most)
  }

  /** Ids of all media jobs at a stage that came before a moment, in pages. */
  idsAt(stage: 'waiting' | 'running', before: Date): AsyncGenerator<string[]> {
    return pagesOfIds(({ after, take }) =>
      this.#db.job.findMany({
        where: { stage, kind: { not: delayedKind }, id: { gt: after }, createdAt: { lt: before } },
        select: { id: true },
        orderBy: { id: 'asc' },
        take,
      }),
    )
  }

  async #ids(where: Prisma.JobWhereInput, take: number): Promise<string[]> {
    const rows = await this.#db.job.findMany({ where, select: { id: true }, orderBy: { deadlineAt: 'asc' }, take })
    return rows.map(({ id }) => id)
  }

  async #change(where: Prisma.JobWhereInput, data: Prisma.JobUpdateManyMutationInput): Promise<Job | null> {
    const [job] = await this.#db.job.updateManyAndReturn({ where, data })
    return job ?? null
  }
}

const one = { increment: 1 }
type Owner = Pick<Job, 'organisationId' | 'environment'>

/** Named one by one, so that Postgres finds these few by the index and need not pass all that are over. */
const inFlight = ['waiting', 'starting', 'running'] as const

/** A start that somebody claimed: the end of the lease tells one claim from the next. */
type Claim = Pick<Job, 'id' | 'claimedUntil'>
const ours = ({ id, claimedUntil }: Claim) => ({ id, stage: 'starting', claimedUntil }) as const
