import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import { addMs } from '../base/time.ts'
import type { Operation } from '../providers/contract.ts'
import { endJob } from './end.ts'
import { jobProviderOf } from './job-provider.ts'
import type { JobServices } from './job-services.ts'
import type { End, Job } from './jobs.ts'
import { type JobInput, quotedNanoOf } from './submit.ts'

const startingWaitMs = 5_000
const startingPollMs = 50

/** How a job that is cancelled is shown and logged. */
type Ending = Pick<End, 'status' | 'logStatus' | 'error'>
const cancelledByOwner: Ending = { status: 'cancelled', logStatus: 499 }

function lateEnding(timeoutMs: number): Ending {
  const message = `The job took longer than its own timeout of ${timeoutMs} ms.`
  return { status: 'cancelled', logStatus: 504, error: { code: 'upstream_timeout', message } }
}

/** Cancels a job that took longer than its caller gave it, if it is not over: while it starts, as soon as that is done. */
export async function endLateJob(services: JobServices, { id, stage }: Job, timeoutMs: number): Promise<void> {
  if (stage === 'starting') await services.jobs.requestCancel(id)
  else await cancelUnlessOver(services, id, lateEnding(timeoutMs))
}

/**
 * Cancels a job: with a full refund before the provider began, at its current charge after that. A job whose start is under
 * way is returned unchanged, and cancelled as soon as it is known whether its provider began. Throws a GatewayError 409
 * `not_cancellable` when it is over.
 */
export async function cancelJob(services: JobServices, id: string, ending = cancelledByOwner): Promise<Job> {
  for (let tries = 0; tries < 10; tries++) {
    const job = await waitForStart(services, id)
    if (!job || job.stage === 'over') break
    if (job.stage === 'starting') {
      const requested = await services.jobs.requestCancel(id)
      if (requested) return requested
      continue
    }
    const hasBegun = job.stage === 'running' || job.operation !== null
    const ended = await endJob(
      services,
      id,
      {
        ...ending,
        refund: !hasBegun,
        ...(hasBegun && job.costNano === null && { costNano: quotedNanoOf(job) }),
        ...(!hasBegun && job.costNano === null && { costNano: 0n }),
      },
      job,
    )
    if (!ended) continue // Its stage changed in the meantime: read it again.
    if (hasBegun && ended.operation !== null)
      await services.mediaTasks
        .add('cancel', id)
        .catch(error => services.log.warn({ err: error, job: id }, 'cannot enqueue the cancellation at the provider'))
    return ended
  }
  throw new GatewayError('not_cancellable', 'This job is over; it can no longer be cancelled.')
}

/** Cancels a job whose cancellation was requested during its start; false when none was requested. */
export async function cancelIfRequested(services: JobServices, id: string): Promise<boolean> {
  const job = await services.jobs.read(id)
  if (!job?.cancelRequestedAt) return false
  const { timeoutMs } = job.input as unknown as JobInput
  const isLate = timeoutMs !== undefined && job.cancelRequestedAt >= job.deadlineAt
  await cancelUnlessOver(services, id, isLate ? lateEnding(timeoutMs) : cancelledByOwner)
  return true
}

async function cancelUnlessOver(services: JobServices, id: string, ending: Ending): Promise<void> {
  await cancelJob(services, id, ending).catch(error => {
    if (!(error instanceof GatewayError)) throw error
  })
}

/** Waits until it is known whether the job's provider began, at most 5 s; returns the job. */
async function waitForStart(services: JobServices, id: string): Promise<Job | null> {
  for (const untilMs = addMs(services.monotonic.now(), startingWaitMs); ; await sleep(startingPollMs)) {
    const job = await services.jobs.read(id)
    if (job?.stage !== 'starting' || services.monotonic.now() > untilMs) return job
  }
}

/** Asks the provider of a cancelled or expired job to stop. Throws what the request throws, so that the queue retries. */
export async function cancelAtProvider(services: JobServices, jobId: string): Promise<null> {
  const job = await services.jobs.read(jobId)
  const jobProvider = job?.operation ? await jobProviderOf(services, job) : null
  if (jobProvider === 'own_key_gone') return null // Nothing can be asked of its provider any more.
  await jobProvider?.adapter.cancel?.(job!.operation as Operation, jobProvider.connection)
  return null
}
