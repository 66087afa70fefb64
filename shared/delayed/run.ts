import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import { run } from '../chat/run.ts'
import { readTimeouts } from '../engine/caller-timeouts.ts'
import { internalError } from '../engine/failures.ts'
import { endJob, expiredEnd, failedEnd } from '../jobs/end.ts'
import type { End, Job } from '../jobs/jobs.ts'
import { traceStep } from '../traces/work.ts'
import { BackgroundAnswer } from './background-answer.ts'
import { failedRunEnd, removeDeletedEvents, settleCancelled, settledEnd, uncharged } from './cancel.ts'
import { type DelayedInput, failuresOf, isBackground, readWork } from './delayed-row.ts'
import type { DelayedServices } from './delayed-services.ts'
import { FileAnswer } from './file-answer.ts'
import { HoldAdmission } from './hold-admission.ts'
import type { JobAnswer } from './job-answer.ts'
import { Lease } from './lease.ts'
import { type RetryDecision, retryDecisionFor } from './retry.ts'

/** An answer is paid for, so storing it is retried while a store is unavailable. */
const saveRetryDelayMs = 2_000
const maxSaveTries = 60

/**
 * Runs a claimed job. Returns the delay in milliseconds before a retry; null when it is over or its lease was lost. Once
 * `stopping` is aborted, the job is requeued, to be run by another worker at once.
 */
export function runDelayed(services: DelayedServices, job: Job, stopping: AbortSignal): Promise<number | null> {
  return services.delayedJobs.run(job, () => runToEnd(services, job, stopping))
}

async function runToEnd(services: DelayedServices, job: Job, stopping: AbortSignal): Promise<number | null> {
  try {
    if (job.cancelRequestedAt) {
      await settleCancelled(services, job.id)
      return null
    }
    const answer = isBackground(job) ? await BackgroundAnswer.open(services, job) : new FileAnswer(services, job)
    if (answer) return await runClaimed(services, job, answer, stopping)
    await endJob(services, job.id, uncharged(job))
    return null
  } catch (error) {
    // The start has ended, although with an error.
    await services.delayedJobs.requeue(job, failuresOf(job)).catch(() => {})
    throw error
  }
}

async function runClaimed(
  services: DelayedServices,
  job: Job,
  answer: JobAnswer,
  stopping: AbortSignal,
): Promise<number | null> {
  const lease = new Lease(services, job, stopping, answer.client)
  try {
    return await services.crashSuspects.run(job.openStarts, async () => {
      if (job.openStarts > 0 && !lease.cut && !(await services.delayedJobs.begin(job))) return null
      const admission = new HoldAdmission(services, job, answer)
      try {
        return await runLeased({ services, job, answer, lease, admission })
      } finally {
        admission.close()
      }
    })
  } finally {
    lease.end()
  }
}

/** The run of a claimed job. */
type LeasedRun = { services: DelayedServices; job: Job; answer: JobAnswer; lease: Lease; admission: HoldAdmission }

async function runLeased(run: LeasedRun): Promise<number | null> {
  const { services, job, answer, lease, admission } = run
  if (answer.isShown) return finish(run, failedEnd(interrupted()))
  const error = await runCall(run)
  if (lease.cut === 'cancelled') return finish(run, null)
  if (answer.isComplete) return saveAnswer(run)
  if (lease.cut === 'lost') return null
  if (lease.cut === 'expired') return finish(run, expiredEnd)
  if (lease.cut === 'stopped') return answer.isShown ? finish(run, failedEnd(interrupted())) : requeueJob(run)
  const retry = answer.isShown ? null : retryDecisionFor(job, error)
  if (!retry) return finish(run, failedRunEnd(job, admission, error))
  services.log.info({ job: job.id, code: error.code, ...retry }, 'a delayed job is retried')
  await noteCalls(run)
  return requeueJob(run, retry)
}

/** Ends the job, unless it was cancelled; `end` null = it was. */
async function finish(run: LeasedRun, end: End | null): Promise<null> {
  if (!end || !(await endJob(run.services, run.job.id, end))) await settleIfCancelled(run)
  await run.answer.close()
  if (run.lease.cut === 'cancelled') await removeDeletedEvents(run.services, run.job)
  return null
}

/** Settles a job that was cancelled. Does nothing when it was not: it is over, or another worker has it. */
async function settleIfCancelled({ services, job, lease, admission }: LeasedRun): Promise<void> {
  const current = await services.jobs.read(job.id)
  if (!current?.cancelRequestedAt || current.attempts !== job.attempts) return
  // Of a call that was aborted for another reason, the run does not know what it used.
  const isKnown = admission.isSettled && (!lease.cut || lease.cut === 'cancelled')
  if (!isKnown) await settleCancelled(services, job.id)
  else await endJob(services, job.id, settledEnd(job, admission), current)
}

/** Records why a run failed that is repeated. */
async function noteCalls({ services: { jobs, log }, job, admission: { attempts } }: LeasedRun): Promise<void> {
  if (attempts.length === 0) return
  const warn = (err: unknown) => log.warn({ err, job: job.id }, 'calls are missing in the log')
  await jobs.noteAttempts(job, attempts).catch(warn)
}

/** The failure of an answer of which a part was shown before its worker ended. */
function interrupted(): GatewayError {
  return new GatewayError('internal_error', 'The response was interrupted. Nothing was charged; create it again.')
}

/** Makes the job's call. The answer receives what it returns; without one the returned error is the reason. */
async function runCall({ services, job, answer, admission }: LeasedRun): Promise<GatewayError> {
  const { discountPpm } = job.input as DelayedInput
  try {
    // The scope of the route that created it.
    const key = await services.policies.findByKeyId(job.keyId, isBackground(job) ? 'chat' : '*')
    const work = readWork(job)
    const input = {
      ...work,
      key,
      requestId: job.requestId,
      ...answer.run,
      includeUsage: false,
      timeouts: readTimeouts(undefined, work.body, services.config.upstream.totalTimeoutMs),
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
async function saveAnswer(run: LeasedRun): Promise<number | null> {
  const { services, job, answer, admission, lease } = run
  for (let tries = 1; ; tries++) {
    try {
      if (!(await answer.save(admission))) await settleIfCancelled(run)
      return null
    } catch (error) {
      if (tries === maxSaveTries) throw error
      services.log.warn({ err: error, job: job.id }, 'storing the answer of a delayed job failed; retrying')
      await sleep(saveRetryDelayMs, undefined, { signal: lease.signal }).catch(() => {})
      if (lease.cut === 'stopped') return requeueJob(run)
      if (lease.cut && lease.cut !== 'cancelled') return null
    }
  }
}

/** Hands the job back, to be run again: at once, or after a pause. */
async function requeueJob(run: LeasedRun, retry?: RetryDecision): Promise<number | null> {
  const { delayedJobs, clock } = run.services
  const { failures = failuresOf(run.job), pauseMs = 0 } = retry ?? {}
  if (await delayedJobs.requeue(run.job, failures, retry ? clock.now() + pauseMs : null)) return pauseMs
  await settleIfCancelled(run)
  return null
}
