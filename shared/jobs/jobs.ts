import { isDeepStrictEqual } from 'node:util'
import { GatewayError } from '../base/errors.ts'
import type { Quotas } from '../base/quotas.ts'
import type { Clock } from '../base/time.ts'
import { type Job, Prisma } from '../generated/prisma/client.ts'
import type { Connection, Database, TransactionStep } from '../io/db.ts'
import { pagesOfIds, rowsAfter } from '../io/keyset.ts'
import { Turns } from '../io/turns.ts'
import { queuedKinds } from '../kinds/index.ts'
import { isOwnKeyId } from '../providers/own-accounts.ts'
import { chargeJob, type JobCall, logJob, logJobAttempts, logJobEnd, settleJob } from '../wallet/jobs.ts'
import type { RoutedAttempt } from '../wallet/routing-record.ts'
import type { Webhooks } from '../webhooks/webhooks.ts'

export type { Job }

const polledColumns = {
  model: true,
  id: true,
  kind: true,
  environment: true,
  provider: true,
  credentialId: true,
  operation: true,
  startedAt: true,
  createdAt: true,
} as const
/** The columns of a job that a poll needs: hundreds are read at once. */
export type RunningJob = Pick<Job, keyof typeof polledColumns>

/** The fields of a new job; `chargeNano` is booked with it, `holdNano` only stored. Test jobs have neither. */
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
  /** Null = none (`budgetIds`). */
  budgets?: string | null
  traceparent?: string | null
  input: object
  metadata: object
  chargeNano: bigint | null
  createdAt?: Date
  /** No worker claims it before this time. */
  claimedUntil?: Date | null
  deadlineAt: Date
}

/** The kind of jobs that are delayed requests; all others are media. */
export const delayedKind = 'async'

/** How a job ends. `costNano` is what a held job costs; `refund` returns what was charged at its creation. */
export type End = {
  status: 'completed' | 'failed' | 'cancelled' | 'expired'
  /** As in the request log: 200, or the status that a direct request would have received. */
  logStatus: number
  result?: object
  error?: { code: string; message: string }
  costNano?: bigint
  /** Reserved for it in addition to its hold. */
  extraNano?: bigint
  /** The discount in `costNano`, in parts per million, for the metrics. */
  discountPpm?: number
  refund: boolean
  /** When the results are deleted. */
  expiresAt?: Date
  /** The model call of a delayed request. */
  call?: JobCall
  /** Replaces the job's handle of its work. */
  operation?: object
}
type Ended = { job: Job; deliveryIds: string[] }

/**
 * The state that the end of a job was computed from: its stage, the claim of its start, or all columns that decide what it costs.
 * A job that has left it is not ended.
 */
export type ExpectedState =
  | Job['stage']
  | { claim: Claim }
  | Pick<Job, 'stage' | 'attempts' | 'operation' | 'cancelRequestedAt'>

type Settings = {
  /** Lease of a start under way; must be longer than a start takes. */
  startLeaseMs: number
  quotas: Pick<Quotas, 'live' | 'test'>
  /** The margin in the charges of media jobs. */
  marginPpm: bigint
}

type Deps = { db: Database; webhooks: Webhooks; clock: Clock } & Settings

/**
 * The rows of slow work, and their only writer. Every step is a compare-and-set on the row's stage, so that no step is
 * applied twice.
 */
export class Jobs {
  readonly #deps: Deps
  readonly #turns = new Turns()

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /**
   * Inserts a job with its charge, its request log row and what `beside` writes, in one transaction. Throws what `beside`
   * throws, and 429 when the organisation has too many unfinished jobs.
   */
  create(newJob: NewJob, beside?: TransactionStep<Job>): Promise<Job> {
    const { chargeNano, input, metadata, createdAt = new Date(this.#deps.clock.now()), ...fields } = newJob
    const insert = async (tx: Connection) => {
      await this.#assertRoom(tx, fields)
      const job = await tx.job.create({ data: { ...fields, input, metadata, costNano: chargeNano, createdAt } })
      await chargeJob(tx, job, chargeNano ?? 0n, chargeNano ?? 0n, createdAt.getTime())
      const { own } = input as { own?: { upstreamNano: string } }
      await logJob(tx, job, chargeNano ?? 0n, own ? null : this.#deps.marginPpm, own && BigInt(own.upstreamNano))
      await beside?.(tx, job)
      return job
    }
    return this.#turns.run(lockOf(fields), () => this.#deps.db.$transaction(insert))
  }

  /** An advisory lock serialises the inserts of one owner from this count to the end of the transaction. */
  async #assertRoom(tx: Connection, job: Pick<Job, keyof Owner | 'kind'>) {
    const { organisationId, environment, kind } = job
    const max = this.#deps.quotas[environment].unfinishedJobs
    await tx.$executeRaw`SELECT pg_advisory_xact_lock(hashtextextended(${lockOf(job)}, 0))`
    const kinds = kind === delayedKind ? [delayedKind] : Object.keys(queuedKinds)
    const [row] = await tx.$queryRaw<[{ open: bigint }]>`
      SELECT count(*) AS open FROM jobs WHERE organisation_id = ${organisationId}
        AND environment = ${environment}::environment AND kind = ANY(${kinds}) AND stage <> 'over'`
    if (row.open < max) return
    throw tooManyUnfinished(`${max.toLocaleString('en')} unfinished jobs`)
  }

  /** A page of an organisation's jobs of one kind, by creation time. Throws 404 for an unknown `after`. */
  async list(
    { organisationId, environment }: Owner,
    kind: string,
    { limit, after, order }: { limit: number; after?: string; order: 'asc' | 'desc' },
  ): Promise<Job[]> {
    const { db } = this.#deps
    const shown = { organisationId, environment, kind }
    // A job that was deleted since is still a valid cursor.
    const last = after === undefined ? null : await db.job.findFirst({ where: { ...shown, id: after } })
    if (after !== undefined && !last)
      throw new GatewayError('not_found', 'There is no job of that id to list after.', { param: 'after' })
    return db.job.findMany({
      where: { ...shown, deletedAt: null, ...(last && rowsAfter(last, order)) },
      orderBy: [{ createdAt: order }, { id: order }],
      take: limit,
    })
  }

  /** Deletes a job that is over for its owner, and drops its input, metadata and result; false when it is not over. */
  async delete(id: string): Promise<boolean> {
    const { db, clock } = this.#deps
    const now = new Date(clock.now())
    const { count } = await db.job.updateMany({
      where: { id, stage: 'over', deletedAt: null },
      data: { input: {}, metadata: {}, result: Prisma.DbNull, forgottenAt: now, deletedAt: now },
    })
    return count === 1
  }

  /** An organisation's job; null also for another organisation's. Test keys see test jobs, live keys live ones. */
  find(id: string, { organisationId, environment }: Owner): Promise<Job | null> {
    return this.#deps.db.job.findFirst({ where: { id, organisationId, environment, deletedAt: null } })
  }

  read(id: string): Promise<Job | null> {
    return this.#deps.db.job.findUnique({ where: { id } })
  }

  /** The jobs among these ids that are running, with the columns that a poll needs. */
  listRunning(ids: readonly string[]): Promise<RunningJob[]> {
    return this.#deps.db.job.findMany({ where: { id: { in: [...ids] }, stage: 'running' }, select: polledColumns })
  }

  /** Claims the start of a job at a provider and counts it; null when it is already claimed, running or over. */
  async claimStart(id: string, provider: string, credentialId: string | null): Promise<Job | null> {
    const claimedUntil = this.startLeaseEnd()
    return this.#change(
      { id, stage: 'waiting' },
      { stage: 'starting', provider, credentialId, claimedUntil, attempts: { increment: 1 }, openStarts: one },
    )
  }

  /** Claims a job whose start lease expired, and counts that start: its worker died. */
  async claimLostStart(id: string): Promise<Job | null> {
    return this.#change(
      { id, stage: 'starting', claimedUntil: { lt: new Date(this.#deps.clock.now()) } },
      { claimedUntil: this.startLeaseEnd(), openStarts: one },
    )
  }

  /** Counts the start of importing a running job's results; null when it is not running. */
  beginFinish(id: string): Promise<Job | null> {
    return this.#change({ id, stage: 'running' }, { openStarts: one })
  }

  /** Uncounts a start or finish that has ended, or whose process is about to be stopped: another worker may take it up. */
  async endStart(id: string): Promise<void> {
    const where = { id, stage: { in: ['starting', 'running'] }, openStarts: { gt: 0 } } satisfies Prisma.JobWhereInput
    await this.#change(where, { openStarts: { decrement: 1 }, leaseRun: null, leaseUntil: null })
  }

  /** The end of the lease of a start that is claimed now. */
  startLeaseEnd(): Date {
    return new Date(this.#deps.clock.now() + this.#deps.startLeaseMs)
  }

  /**
   * Moves a claim to another provider before anything is sent there; null when the claim was lost. Idempotent for the same new
   * lease, so that a caller that lost the reply may retry: who has taken the claim over has counted another start.
   */
  async moveStart(
    claimed: Claim & Pick<Job, 'attempts' | 'openStarts'>,
    to: Pick<Job, 'provider' | 'credentialId' | 'claimedUntil'>,
  ): Promise<Job | null> {
    const { id, openStarts } = claimed
    const moved = { ...to, attempts: claimed.attempts + 1 }
    const job = await this.#change(claimedBy(claimed), moved)
    return job ?? this.#deps.db.job.findFirst({ where: { id, stage: 'starting', openStarts, ...moved } })
  }

  /** Requests cancellation once the outcome of a start under way is known; null when its stage has changed. */
  requestCancel(id: string): Promise<Job | null> {
    return this.#change({ id, stage: 'starting' }, { cancelRequestedAt: new Date(this.#deps.clock.now()) })
  }

  /** Releases a claimed start that had no effect. */
  async releaseStart(claimed: Claim): Promise<void> {
    await this.#change(claimedBy(claimed), { stage: 'waiting', claimedUntil: null, openStarts: { decrement: 1 } })
  }

  /** Ends the lease of a start whose outcome is unknown, so that any worker may recover it at once. */
  async yieldStart(claimed: Claim): Promise<void> {
    await this.#change(claimedBy(claimed), {
      claimedUntil: new Date(this.#deps.clock.now()),
      openStarts: { decrement: 1 },
    })
  }

  /** Records calls to providers and their outcomes in the request log, before the job's end. */
  noteAttempts(job: Pick<Job, 'id' | 'createdAt'>, attempts: readonly RoutedAttempt[]): Promise<void> {
    return logJobAttempts(this.#deps.db, job, attempts)
  }

  /**
   * Marks a job as running where its start was claimed; null when it was cancelled or expired in the meantime, or is started
   * elsewhere. Idempotent for the same operation, so that a caller that lost the reply may retry.
   */
  async markRunning(
    { id, startedAt, provider, credentialId }: Pick<Job, 'id' | 'startedAt' | 'provider' | 'credentialId'>,
    operation: object,
  ): Promise<Job | null> {
    const running = { stage: 'running', status: 'in_progress', operation, claimedUntil: null, openStarts: 0 } as const
    const now = new Date(this.#deps.clock.now())
    // Whose lease expired may still store the handle, but not as that of work at another account.
    const where = { id, stage: 'starting', provider, credentialId } as const
    const job = await this.#change(where, { ...running, startedAt: startedAt ?? now })
    if (job) return job
    const current = await this.read(id)
    return current?.stage === 'running' && isDeepStrictEqual(current.operation, operation) ? current : null
  }

  /**
   * Moves a job whose part of the work is done back to `waiting`, for the start of its next part; null when it has
   * moved on.
   */
  async advancePart(done: Pick<Job, 'id' | 'operation'>, operation: object, progress: number): Promise<Job | null> {
    const where = { id: done.id, stage: 'running', operation: { equals: done.operation ?? Prisma.DbNull } } as const
    return this.#change(where, { stage: 'waiting', operation, progress, openStarts: 0 })
  }

  /** Writes the progress of many running jobs in one statement; progress never decreases. */
  async recordProgress(reports: readonly { id: string; progress: number }[]): Promise<void> {
    if (reports.length === 0) return
    await this.#deps.db.$executeRaw`
      UPDATE jobs SET progress = p.progress
      FROM jsonb_to_recordset(${JSON.stringify(reports)}::jsonb) AS p(id text, progress int)
      WHERE jobs.id = p.id AND jobs.stage = 'running' AND jobs.progress < p.progress`
  }

  /**
   * Ends a job: its final status, settlement, request log row, webhook outbox row and what `beside` writes in one
   * transaction. Null when it is over already, no longer as `expected`, or was cancelled in the meantime.
   */
  end(id: string, end: End, expected?: ExpectedState, beside?: TransactionStep<Job>): Promise<Ended | null> {
    const nowMs = this.#deps.clock.now()
    return this.#deps.db.$transaction(tx => endRow(tx, this.#deps.webhooks, id, { end, expected, beside, nowMs }))
  }

  /** Ids of jobs past their deadline, at most `max`. */
  listOverdue(max: number): Promise<string[]> {
    return this.#listIds({ ...stillOpen, deadlineAt: { lt: new Date(this.#deps.clock.now()) } }, max)
  }

  /** Ids of jobs whose start lease expired, at most `max`. */
  listLostStarts(max: number): Promise<string[]> {
    return this.#listIds({ stage: 'starting', claimedUntil: { lt: new Date(this.#deps.clock.now()) } }, max)
  }

  /** Ids of all media jobs at a stage that were created before a time, in pages. */
  listIdsAt(stage: 'waiting' | 'running', before: Date): AsyncGenerator<string[]> {
    return pagesOfIds(({ after, take }) =>
      this.#deps.db.job.findMany({
        where: { stage, kind: { not: delayedKind }, id: { gt: after }, createdAt: { lt: before } },
        select: { id: true },
        orderBy: { id: 'asc' },
        take,
      }),
    )
  }

  async #listIds(where: Prisma.JobWhereInput, take: number): Promise<string[]> {
    const rows = await this.#deps.db.job.findMany({ where, select: { id: true }, orderBy: { deadlineAt: 'asc' }, take })
    return rows.map(({ id }) => id)
  }

  async #change(where: Prisma.JobWhereInput, data: Prisma.JobUpdateManyMutationInput): Promise<Job | null> {
    const [job] = await this.#deps.db.job.updateManyAndReturn({ where, data })
    return job ?? null
  }
}

const one = { increment: 1 }
type Owner = Pick<Job, 'organisationId' | 'environment'>

/** A claimed start: the end of the lease identifies the claim. */
type Claim = Pick<Job, 'id' | 'claimedUntil'>
const claimedBy = ({ id, claimedUntil }: Claim) => ({ id, stage: 'starting', claimedUntil }) as const

/** The 429 error for new work while an organisation has too much unfinished work. */
export function tooManyUnfinished(what: string): GatewayError {
  const message = `Your organisation has ${what}. Wait until some of them are over, or cancel them.`
  return new GatewayError('rate_limit_exceeded', message, { headers: { 'retry-after': '60' } })
}

/** Listed explicitly, so that Postgres finds these few rows by the index instead of scanning all that are over. */
const inFlight = { in: ['waiting', 'starting', 'running'] } satisfies Prisma.EnumJobStageFilter

/** A delayed job whose cancellation was requested is over for its owner: only its cancellation may still end it. */
const stillOpen = {
  stage: inFlight,
  OR: [{ kind: { not: delayedKind } }, { cancelRequestedAt: null }],
} satisfies Prisma.JobWhereInput

type Ending = {
  end: End
  expected: ExpectedState | undefined
  beside: TransactionStep<Job> | undefined
  nowMs: number
}

/** Ends a job in a transaction, as `Jobs.end` describes. */
async function endRow(
  tx: Connection,
  webhooks: Webhooks,
  id: string,
  { end, expected, beside, nowMs }: Ending,
): Promise<Ended | null> {
  const [job] = await tx.job.updateManyAndReturn({
    where: { id, AND: [end.status === 'cancelled' ? { stage: inFlight } : stillOpen, whereAt(expected)] },
    data: {
      status: end.status,
      stage: 'over',
      claimedUntil: null,
      completedAt: new Date(nowMs),
      ...(end.status === 'completed' && { progress: 100 }),
      ...(end.result && { result: end.result }),
      ...(end.error && { error: end.error }),
      ...(end.expiresAt && { expiresAt: end.expiresAt }),
      ...(end.operation && { operation: end.operation }),
      ...(end.call && { model: end.call.model, provider: end.call.provider }),
    },
  })
  if (!job) return null
  const costNano = await settleJob(tx, job, end, nowMs)
  const isDelayed = job.kind === delayedKind
  const ended = await tx.job.update({
    where: { id },
    data: {
      costNano,
      // A request may be long and is private: it is dropped as soon as it is no longer needed.
      ...(isDelayed && { input: {} }),
      // Its owner was told this time already.
      ...(isDelayed && job.cancelRequestedAt && { completedAt: job.cancelRequestedAt }),
    },
  })
  const { logStatus: status, error, call } = end
  const { provider, attempts, organisationId, webhookUrl: url } = job
  const [errorCode, errorMessage] = [error?.code ?? null, error?.message ?? null]
  const providerKeyId = isOwnKeyId(job.credentialId) ? job.credentialId : null
  await logJobEnd(tx, job, {
    provider,
    providerKeyId,
    status,
    errorCode,
    errorMessage,
    costNano,
    nowMs,
    attempts,
    call,
  })
  // After the request log, as at its creation: both lock sums of the organisation.
  await beside?.(tx, ended)
  const deliveryIds = await webhooks.publish(tx, { organisationId, jobId: id, type: `job.${end.status}`, url, nowMs })
  return { job: ended, deliveryIds }
}

function whereAt(expected: ExpectedState | undefined): Prisma.JobWhereInput {
  if (typeof expected !== 'object') return expected ? { stage: expected } : {}
  if ('claim' in expected) return claimedBy(expected.claim)
  const { stage, attempts, operation, cancelRequestedAt } = expected
  return { stage, attempts, cancelRequestedAt, operation: { equals: operation ?? Prisma.DbNull } }
}

/** The name of the lock under which a job is inserted. */
function lockOf({ organisationId, environment, kind }: Pick<Job, keyof Owner | 'kind'>): string {
  return `jobs ${organisationId} ${environment} ${kind === delayedKind}`
}
