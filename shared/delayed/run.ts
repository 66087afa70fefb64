import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import { dayMs } from '../base/time.ts'
import { run } from '../chat/run.ts'
import { internalError } from '../engine/failures.ts'
import { bytesOf } from '../io/bytes.ts'
import { endJob, expiredEnd, failedEnd } from '../jobs/end.ts'
import { type NamingBody, sessionInMetadata } from '../routing/session-in-metadata.ts'
import type { Services } from '../services.ts'
import { type DelayedInput, failuresOf } from '../store/delayed-jobs.ts'
import type { StoredFile } from '../store/files.ts'
import type { End, Job } from '../store/jobs.ts'
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
  const lease = new Lease(services, job, stopping)
  try {
    return await services.suspects.run(job.openStarts, async () => {
      if (job.openStarts > 0 && !lease.cut && !(await services.delayedJobs.begin(job))) return null
      return runLeased(services, job, lease)
    })
  } catch (error) {
    // The start has ended, although with an error.
    await services.delayedJobs.requeue(job, failuresOf(job)).catch(() => {})
    throw error
  } finally {
    lease.end()
  }
}

async function runLeased(services: Services, job: Job, lease: Lease): Promise<number | null> {
  const admission = new HoldAdmission(services, job)
  try {
    return await runAdmitted(services, job, lease, admission)
  } finally {
    admission.close()
  }
}

async function runAdmitted(
  services: Services,
  job: Job,
  lease: Lease,
  admission: HoldAdmission,
): Promise<number | null> {
  const error = await runCall(services, job, admission, lease)
  if (lease.client.body !== null) return await completeJob(services, job, admission, lease)
  if (lease.cut === 'lost') return null
  if (lease.cut === 'expired') return await finishJob(services, job, expiredEnd)
  if (lease.cut === 'stopped') return await requeueJob(services, job)
  const retry = retryDecisionFor(job, error)
  if (!retry) return await finishJob(services, job, { ...failedEnd(error), ...admission.call(null) })
  services.log.info({ job: job.id, code: error.code, ...retry }, 'a delayed job is run again later')
  await services.delayedJobs.requeue(job, retry.failures, services.clock.now() + retry.pauseMs)
  return retry.pauseMs
}

/** Makes the job's call. The lease's client holds the answer; without an answer the returned error is the reason. */
async function runCall(
  services: Services,
  job: Job,
  admission: HoldAdmission,
  { client }: Lease,
): Promise<GatewayError> {
  const { discountPpm } = job.input as DelayedInput
  const work = readWork(job)
  try {
    const key = await services.policies.findByKeyId(job.keyId, '*')
    const input = {
      ...{ ...work, key, requestId: job.requestId },
      session: sessionIn(work.body as NamingBody),
      ...{ stream: false, includeUsage: false },
      bulk: { owner: job.organisationId, discountPpm: BigInt(discountPpm), deadlineMs: job.deadlineAt.getTime() },
    }
    await run({ ...services, admission }, input, client)
    return internalError(new Error('the run ended without an answer'))
  } catch (error) {
    if (error instanceof GatewayError) return error
    services.log.error({ err: error, job: job.id }, 'a delayed job could not be run')
    return internalError(error)
  }
}

/** The caller's name of the conversation. Messages have no `prompt_cache_key`, so there its type is not checked. */
function sessionIn({ prompt_cache_key: key, metadata }: NamingBody): string | null {
  return (typeof key === 'string' && key) || sessionInMetadata({ metadata })
}

/** Stores the answer and ends the job with it. Throws what the stores throw after the last retry. */
async function completeJob(
  services: Services,
  job: Job,
  admission: HoldAdmission,
  lease: Lease,
): Promise<number | null> {
  const text = lease.client.body!
  let file: StoredFile | null = null
  for (let tries = 1; ; tries++) {
    try {
      file ??= await storeAnswer(services, job, text)
      return await endWithAnswer(services, job, admission, file, text)
    } catch (error) {
      if (tries === maxSaveTries) throw error
      services.log.warn({ err: error, job: job.id }, 'the answer of a delayed job is kept later')
      await sleep(saveRetryDelayMs, undefined, { signal: lease.signal }).catch(() => {})
      if (lease.cut === 'stopped') return requeueJob(services, job)
      if (lease.cut) return null
    }
  }
}

function storeAnswer({ files, clock, config }: Services, job: Job, text: string): Promise<StoredFile> {
  return files.store(bytesOf(Buffer.from(text)), {
    organisationId: job.organisationId,
    environment: job.environment,
    purpose: 'result',
    filename: `${job.id}.json`,
    contentType: 'application/json',
    expiresAtMs: clock.now() + config.resultRetentionDays * dayMs,
  })
}

async function endWithAnswer(
  services: Services,
  job: Job,
  admission: HoldAdmission,
  file: StoredFile,
  text: string,
): Promise<null> {
  const { id: answerId } = JSON.parse(text) as { id?: string }
  const ended = await endJob(services, job.id, {
    status: 'completed',
    logStatus: 200,
    result: file,
    costNano: admission.costNano,
    extraNano: BigInt(admission.extraNano),
    discountPpm: (job.input as DelayedInput).discountPpm,
    refund: false,
    expiresAt: new Date(services.clock.now() + services.config.resultRetentionDays * dayMs),
    ...admission.call(answerId ?? null),
  })
  if (ended) return null
  // Over already: ended by another worker, or by our own earlier try whose reply was lost.
  const current = await services.delayedJobs.read(job.id)
  if ((current?.result as StoredFile | null)?.fileId !== file.fileId) await services.files.remove([file])
  return null
}

async function finishJob(services: Services, job: Job, end: End): Promise<null> {
  await endJob(services, job.id, end)
  return null
}

async function requeueJob(services: Services, job: Job): Promise<number> {
  await services.delayedJobs.requeue(job, failuresOf(job))
  return 0
}
