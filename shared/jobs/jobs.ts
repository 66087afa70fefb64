import type { Clock } from '../base/time.ts'
import type { Job, Prisma } from '../generated/prisma/client.ts'
import type { Connection, Database } from '../io/db.ts'
import { chargeJob, logJob, logJobEnd, refundJob } from '../wallet/jobs.ts'
import type { Webhooks } from './webhooks.ts'

export type { Job }

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
> & { input: object; metadata: object; chargeNano: bigint | null; deadlineAt: Date }

/** How a job ends. `costNano` is what a held job costs; `refund` gives back what was charged at its creation. */
export type End = {
  status: 'completed' | 'failed' | 'cancelled' | 'expired'
  /** As in the request log: 200, or what a direct request would have been answered with. */
  logStatus: number
  result?: object
  error?: { code: string; message: string }
  costNano?: bigint
  refund: boolean
  /** When the results are deleted. */
  expiresAt?: Date
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

  constructor(options: {
    db: Database
    webhooks: Webhooks
    clock: Clock
    /** Nobody else may take up a job that is being started for so long: longer than a start takes. */
    startLeaseMs: number
  }) {
    this.#db = options.db
    this.#webhooks = options.webhooks
    this.#clock = options.clock
    this.#startLeaseMs = options.startLeaseMs
  }

  /** Writes a job with its charge and its line in the request log: all or nothing. */
  create({ chargeNano, input, metadata, ...fields }: NewJob): Promise<Job> {
    const nowMs = this.#clock.now()
    return this.#db.$transaction(async tx => {
      const job = await tx.job.create({
        data: { ...fields, input, metadata, costNano: chargeNano, createdAt: new Date(nowMs) },
      })
      await chargeJob(tx, job, chargeNano ?? 0n, nowMs)
      await logJob(tx, job, chargeNano ?? 0n)
      return job
    })
  }

  /** An organisation's job; null also for another organisation's. Test keys see test jobs, live keys live ones. */
  find(id: string, { organisationId, environment }: Pick<Job, 'organisationId' | 'environment'>): Promise<Job | null> {
    return this.#db.job.findFirst({ where: { id, organisationId, environment } })
  }

  read(id: string): Promise<Job | null> {
    return this.#db.job.findUnique({ where: { id } })
  }

  /** The running ones of these jobs, as far as a look needs them. */
  running(ids: readonly string[]): Promise<RunningJob[]> {
    return this.#db.job.findMany({ where: { id: { in: [...ids] }, stage: 'running' }, select: lookedAt })
  }

  /** Claims the start of a job at a provider, once; null when it is taken, running or over. */
  async claimStart(id: string, provider: string, credentialId: string | null): Promise<Job | null> {
    const claimedUntil = new Date(this.#clock.now() + this.#startLeaseMs)
    return this.#change(
      { id, stage: 'waiting' },
      { stage: 'starting', provider, credentialId, claimedUntil, attempts: { increment: 1 } },
    )
  }

  /** Claims a job whose start nobody heard the end of: whoever began it died. */
  async claimLostStart(id: string): Promise<Job | null> {
    const nowMs = this.#clock.now()
    return this.#change(
      { id, stage: 'starting', claimedUntil: { lt: new Date(nowMs) } },
      { claimedUntil: new Date(nowMs + this.#startLeaseMs) },
    )
  }

  /** Moves the claim of a start to another provider, before anything was sent there. */
  async moveStart(id: string, provider: string, credentialId: string | null): Promise<Job | null> {
    return this.#change({ id, stage: 'starting' }, { provider, credentialId, attempts: { increment: 1 } })
  }

  /** Gives a claimed start back: it had no effect. */
  async unstart(id: string): Promise<Job | null> {
    return this.#change({ id, stage: 'starting' }, { stage: 'waiting', claimedUntil: null })
  }

  /** Lets somebody else take up a start whose outcome is not known, at once. */
  async yieldStart(id: string): Promise<void> {
    await this.#change({ id, stage: 'starting' }, { claimedUntil: new Date(this.#clock.now()) })
  }

  /** The provider works; null when the job was cancelled or given up meanwhile. */
  async started(id: string, operation: object): Promise<Job | null> {
    const now = new Date(this.#clock.now())
    const job = await this.#change(
      { id, stage: 'starting' },
      { stage: 'running', status: 'in_progress', operation, claimedUntil: null },
    )
    if (job && !job.startedAt) return this.#change({ id }, { startedAt: now })
    return job
  }

  /** One part of the work is done and another has to be started. */
  async nextPart(id: string, operation: object, progress: number): Promise<Job | null> {
    return this.#change({ id, stage: 'running' }, { stage: 'waiting', operation, progress })
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
        where: { id, stage: stage ?? { not: 'over' } },
        data: {
          status: end.status,
          stage: 'over',
          claimedUntil: null,
          completedAt: new Date(nowMs),
          ...(end.status === 'completed' && { progress: 100 }),
          ...(end.result && { result: end.result }),
          ...(end.error && { error: end.error }),
          ...(end.expiresAt && { expiresAt: end.expiresAt }),
        },
      })
      if (!job) return null
      const costNano = await settle(tx, job, end, nowMs)
      const ended = await tx.job.update({ where: { id }, data: { costNano } })
      const { logStatus: status, error } = end
      const { provider, attempts } = job
      await logJobEnd(tx, job, { provider, status, errorCode: error?.code ?? null, costNano, nowMs, attempts })
      const { organisationId, webhookUrl: url } = job
      const type = `job.${end.status}`
      const deliveryId = url && (await this.#webhooks.insert(tx, { organisationId, jobId: id, type, url, nowMs }))
      return { job: ended, deliveryId }
    })
  }

  /** Ids of jobs past their deadline, those whose start was lost, and those that wait to be started for long; at most `most` each. */
  async neglected(waitingSince: Date, most: number): Promise<{ overdue: string[]; lost: string[]; waiting: string[] }> {
    const now = new Date(this.#clock.now())
    const ids = async (where: Prisma.JobWhereInput) => {
      const rows = await this.#db.job.findMany({
        where,
        select: { id: true },
        orderBy: { deadlineAt: 'asc' },
        take: most,
      })
      return rows.map(({ id }) => id)
    }
    const [overdue, lost, waiting] = await Promise.all([
      ids({ stage: { not: 'over' }, deadlineAt: { lt: now } }),
      ids({ stage: 'starting', claimedUntil: { lt: now } }),
      ids({ stage: 'waiting', createdAt: { lt: waitingSince } }),
    ])
    return { overdue, lost, waiting }
  }

  /** Ids of the running jobs, in pages. */
  async *runningIds(): AsyncGenerator<string[]> {
    let after = ''
    for (let page = 0; page < mostPages; page++) {
      const rows = await this.#db.job.findMany({
        where: { stage: 'running', id: { gt: after } },
        select: { id: true },
        orderBy: { id: 'asc' },
        take: pageSize,
      })
      if (rows.length > 0) yield rows.map(({ id }) => id)
      if (rows.length < pageSize) return
      after = rows.at(-1)!.id
    }
  }

  async #change(where: Prisma.JobWhereInput, data: Prisma.JobUpdateManyMutationInput): Promise<Job | null> {
    const [job] = await this.#db.job.updateManyAndReturn({ where, data })
    return job ?? null
  }
}

const pageSize = 1_000
const mostPages = 1_000

/** Books what the end of a job means for its money; gives what it costs in all. */
async function settle(tx: Connection, job: Job, { refund, costNano }: End, nowMs: number): Promise<bigint> {
  if (job.environment === 'test') return 0n
  if (refund) {
    await refundJob(tx, job, job.costNano ?? 0n, nowMs)
    return 0n
  }
  if (costNano === undefined) return job.costNano ?? 0n
  await chargeJob(tx, job, costNano, nowMs)
  return costNano
}
