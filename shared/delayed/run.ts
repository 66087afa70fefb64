import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import { run } from '../chat/run.ts'
import { internalError } from '../engine/failures.ts'
import { endJob, expiredEnd, failedEnd } from '../jobs/end.ts'
import type { Services } from '../services.ts'
import { type DelayedInput, failuresOf, isBackground } from '../store/delayed-jobs.ts'
import type { End, Job } from '../store/jobs.ts'
import { traceStep } from '../traces/work.ts'
import type { JobAnswer } from './answer.ts'
import { BackgroundAnswer } from './background-answer.ts'
import { FileAnswer } from './file-answer.ts'
import { HoldAdmission } from './hold-admission.ts'
import { readWork } from './input.ts'
import { Lease } from './lease.ts'
import { retryDecisionFor } from './retry.ts'

/** An answer is paid for, so storing it is retried while a store is unavailable. */
const saveRetryDelayMs = 2_000
const maxSaveTries = 60

/**
 * Runs a claimed job. Returns the delay in milliseconds before a retry; null when it is over or its lease was lost. Once
 * `stopping` is aborted, the job is requeued, to be run by another worker at once.
 */
export async function runDelayed(services: Services, job: Job, stopping: AbortSignal): Promise<number | null> {
  try {
    const answer = isBackground(job) ? await BackgroundAnswer.open(services, job) : new FileAnswer(services, job)
    if (answer) return await runClaimed(services, job, answer, stopping)
    await endJob(services, job.id, { status: 'cancelled', logStatus: 499, refund: true })
    return null
  } catch (error) {
    // The start has ended, although with an error.
    await services.delayedJobs.requeue(job, failuresOf(job)).catch(() => {})
    throw error
  }
}

async function runClaimed(
  services: Services,
  job: Job,
  answer: JobAnswer,
  stopping: AbortSignal,
): Promise<number | null> {
  const lease = new Lease(services, job, stopping, answer.client)
  try {
    return await services.suspects.run(job.openStarts, async () => {
      if (job.openStarts > 0 && !lease.cut && !(await services.delayedJobs.begin(job))) return null
      return runLeased(services, job, answer, lease)
    })
  } finally {
    lease.end()
  }
}

async function runLeased(services: Services, job: Job, answer: JobAnswer, lease: Lease): Promise<number | null> {
  const admission = new HoldAdmission(services, job)
  try {
    return await runAdmitted(services, job, answer, lease, admission)
  } finally {
    admission.close()
  }
}

async function runAdmitted(
  services: Services,
  job: Job,
  answer: JobAnswer,
  lease: Lease,
  admission: HoldAdmission,
): Promise<number | null> {
  const finish = async (end: End) => {
    await endJob(services, job.id, end)
    await answer.close()
    return null
  }
  if (answer.isShown) return finish(failedEnd(interrupted()))
  const error = await runCall(services, job, answer, admission)
  if (answer.isComplete) return await saveAnswer(services, job, answer, admission, lease)
  if (lease.cut === 'lost') return null
  if (lease.cut === 'expired') return finish(expiredEnd)
  if (lease.cut === 'stopped') return answer.isShown ? finish(failedEnd(interrupted())) : requeueJob(services, job)
  const retry = answer.isShown ? null : retryDecisionFor(job, error)
  if (!retry) return finish({ ...failedEnd(error), ...admission.call(null) })
  services.log.info({ job: job.id, code: error.code, ...retry }, 'a delayed job is run again later')
  await noteCalls(services, job, admission)
  await services.delayedJobs.requeue(job, retry.failures, services.clock.now() + retry.pauseMs)
  return retry.pauseMs
}

/** Records why a run failed that is repeated. */
async function noteCalls({ jobs, log }: Services, job: Job, { attempts }: HoldAdmission): Promise<void> {
  if (attempts.length === 0) return
  const warn = (err: unknown) => log.warn({ err, job: job.id }, 'calls are missing in the log')
  await jobs.noteAttempts(job, attempts).catch(warn)
}

/** The failure of an answer of which a part was shown before its worker ended. */
function interrupted(): GatewayError {
  return new GatewayError('internal_error', 'The response was interrupted. Nothing was charged; create it again.')
}

/** Makes the job's call. `answer` receives what it returns; without an answer the returned error is the reason. */
async function runCall(
  services: Services,
  job: Job,
  answer: JobAnswer,
  admission: HoldAdmission,
): Promise<GatewayError> {
  const { discountPpm } = job.input as DelayedInput
  try {
    const key = await services.policies.findByKeyId(job.keyId, '*')
    const input = {
      ...{ ...readWork(job), key, requestId: job.requestId },
      ...{ ...answer.run, includeUsage: false },
      bulk: { owner: job.organisationId, discountPpm: BigInt(discountPpm), deadlineMs: job.deadlineAt.getTime() },
    }
    const step = { traceparent: job.traceparent, queue: 'async', name: `process ${job.kind}`, id: job.id }
    await traceStep(services.tracing, step, async trace => {
      answer.client.trace = trace
      await run({ ...services, admission }, input, answer.client)
    })
    return answer.failure ?? internalError(new Error('the run ended without an answer'))
  } catch (error) {
    if (error instanceof GatewayError) return error
    services.log.error({ err: error, job: job.id }, 'a delayed job could not be run')
    return internalError(error)
  }
}

/** Stores the answer and ends the job with it. Throws what the stores throw after the last retry. */
async function saveAnswer(
  services: Services,
  job: Job,
  answer: JobAnswer,
  admission: HoldAdmission,
  lease: Lease,
): Promise<number | null> {
  for (let tries = 1; ; tries++) {
    try {
      await answer.save(admission)
      return null
    } catch (error) {
      if (tries === maxSaveTries) throw error
      services.log.warn({ err: error, job: job.id }, 'the answer of a delayed job is kept later')
      await sleep(saveRetryDelayMs, undefined, { signal: lease.signal }).catch(() => {})
      if (lease.cut === 'stopped') return requeueJob(services, job)
      if (lease.cut) return null
    }
  }
}

async function requeueJob(services: Services, job: Job): Promise<number> {
  await services.delayedJobs.requeue(job, failuresOf(job))
  return 0
}
