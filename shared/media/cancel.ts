import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import type { Job } from '../jobs/jobs.ts'
import type { Operation } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import { connectionOf } from './connection.ts'
import { endJob } from './end.ts'

const startingWaitMs = 5_000
const startingLookMs = 50

/**
 * Cancels a job: refunded in full before the provider began, charged as it stands after that. A job whose start is under way is
 * given as it is, and cancelled as soon as it is known whether its provider began. Throws a GatewayError 409 `not_cancellable`
 * when it is over.
 */
export async function cancel(services: Services, id: string): Promise<Job> {
  for (let tries = 0; tries < 10; tries++) {
    const job = await settledStage(services, id)
    if (!job || job.stage === 'over') break
    if (job.stage === 'starting') {
      const asked = await services.jobs.requestCancel(id)
      if (asked) return asked
      continue
    }
    const begun = job.stage === 'running' || job.operation !== null
    const ended = await endJob(
      services,
      id,
      {
        status: 'cancelled',
        logStatus: 499,
        refund: !begun,
        ...(begun && job.costNano === null && { costNano: job.holdNano }),
        ...(!begun && job.costNano === null && { costNano: 0n }),
      },
      job.stage,
    )
    if (!ended) continue // It went on meanwhile: look again.
    if (begun && ended.operation !== null)
      await services.tasks
        .add('cancel', id)
        .catch(error => services.log.warn({ err: error, job: id }, 'the provider is not told'))
    return ended
  }
  throw new GatewayError('not_cancellable', 'This job is over; it can no longer be cancelled.')
}

/** Cancels a job that was to be cancelled once its start was known; false when it was not. */
export async function cancelIfRequested(services: Services, id: string): Promise<boolean> {
  const job = await services.jobs.read(id)
  if (!job?.cancelRequestedAt) return false
  await cancel(services, id).catch(error => {
    if (!(error instanceof GatewayError)) throw error // It is over already.
  })
  return true
}

/** The job as soon as it is known whether its provider began; after 5 s as it is. */
async function settledStage(services: Services, id: string): Promise<Job | null> {
  for (const untilMs = Date.now() + startingWaitMs; ; await sleep(startingLookMs)) {
    const job = await services.jobs.read(id)
    if (job?.stage !== 'starting' || Date.now() > untilMs) return job
  }
}

/** Asks the provider of a cancelled or expired job to stop. Throws what the request throws: to be tried again. */
export async function cancelJob(services: Services, jobId: string): Promise<null> {
  const job = await services.jobs.read(jobId)
  const connection = job?.operation ? connectionOf(services, job) : null
  await connection?.adapter.cancel?.(job!.operation as Operation, connection.line)
  return null
}
