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
 * Cancels a job: refunded in full before the provider began, charged as it stands after that. While it is not known whether
 * it began, the caller is not charged, and whoever is starting it stops the work. Throws a GatewayError 409
 * `not_cancellable` when it is over.
 */
export async function cancel(services: Services, id: string): Promise<Job> {
  for (let tries = 0; tries < 10; tries++) {
    const job = await settledStage(services, id)
    if (!job || job.stage === 'over') break
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
