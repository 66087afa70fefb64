import { type Job, Prisma } from '../generated/prisma/client.ts'
import type { Connection, TransactionStep } from '../io/db.ts'
import { type JobCall, logJobEnd, settleJob } from '../wallet/jobs.ts'
import type { Webhooks } from '../webhooks/webhooks.ts'

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
export type Ended = { job: Job; deliveryIds: string[] }

/**
 * The state that the end of a job was computed from: its stage, or all columns that decide what it costs. A job that
 * has left it is not ended.
 */
export type ExpectedState = Job['stage'] | Pick<Job, 'stage' | 'attempts' | 'operation' | 'cancelRequestedAt'>

/** Listed explicitly, so that Postgres finds these few rows by the index instead of scanning all that are over. */
const inFlight = { in: ['waiting', 'starting', 'running'] } satisfies Prisma.EnumJobStageFilter

/** A delayed job whose cancellation was requested is over for its owner: only its cancellation may still end it. */
export const stillOpen = {
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
export async function endRow(
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
  await beside?.(tx, ended)
  const { logStatus: status, error, call } = end
  const { provider, attempts, organisationId, webhookUrl: url } = job
  const [errorCode, errorMessage] = [error?.code ?? null, error?.message ?? null]
  await logJobEnd(tx, job, { provider, status, errorCode, errorMessage, costNano, nowMs, attempts, call })
  const deliveryIds = await webhooks.publish(tx, { organisationId, jobId: id, type: `job.${end.status}`, url, nowMs })
  return { job: ended, deliveryIds }
}

function whereAt(expected: ExpectedState | undefined): Prisma.JobWhereInput {
  if (typeof expected !== 'object') return expected ? { stage: expected } : {}
  const { stage, attempts, operation, cancelRequestedAt } = expected
  return { stage, attempts, cancelRequestedAt, operation: { equals: operation ?? Prisma.DbNull } }
}
