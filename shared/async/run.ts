import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import { dayMs } from '../base/time.ts'
import { internalError } from '../chat/failures.ts'
import { run } from '../chat/run.ts'
import { bytesOf } from '../io/bytes.ts'
import { type DelayedInput, failuresOf } from '../jobs/delayed.ts'
import type { StoredFile } from '../jobs/files.ts'
import type { End, Job } from '../jobs/jobs.ts'
import type { ChatRequest } from '../kinds/chat.ts'
import { chatFeatures } from '../kinds/features.ts'
import { endJob, expired, failed } from '../media/end.ts'
import type { Services } from '../services.ts'
import { againAfter } from './again.ts'
import { JobGate } from './gate.ts'
import { Tenure } from './tenure.ts'

/** An answer is paid for: the stores that it goes to may be away for a while. */
const savingPauseMs = 2_000
const savingTries = 60

/**
 * Runs a claimed job. Gives the delay in milliseconds after which it may be run again; null when it is over, or somebody
 * else's. Once `stopping` is aborted it is handed back, to be run by somebody else at once.
 */
export async function runDelayed(services: Services, job: Job, stopping: AbortSignal): Promise<number | null> {
  const tenure = new Tenure(services, job, stopping)
  try {
    return await services.suspects.run(job.openStarts, async () => {
      if (job.openStarts > 0 && !tenure.cut && !(await services.delayed.begin(job))) return null
      return tenured(services, job, tenure)
    })
  } catch (error) {
    // A start that ended, though badly.
    await services.delayed.putBack(job, failuresOf(job)).catch(() => {})
    throw error
  } finally {
    tenure.end()
  }
}

async function tenured(services: Services, job: Job, tenure: Tenure): Promise<number | null> {
  const gate = new JobGate(services, job)
  try {
    return await gated(services, job, tenure, gate)
  } finally {
    gate.close()
  }
}

async function gated(services: Services, job: Job, tenure: Tenure, gate: JobGate): Promise<number | null> {
  const error = await called(services, job, gate, tenure)
  if (tenure.client.body !== null) return await completed(services, job, gate, tenure)
  if (tenure.cut === 'lost') return null
  if (tenure.cut === 'expired') return await over(services, job, expired)
  if (tenure.cut === 'stopped') return await handedBack(services, job)
  const again = againAfter(job, error)
  if (!again) return await over(services, job, { ...failed(error), ...gate.call(null) })
  services.log.info({ job: job.id, code: error.code, ...again }, 'a delayed job is run again later')
  await services.delayed.putBack(job, again.failures, services.clock.now() + again.pauseMs)
  return again.pauseMs
}

/** Makes the job's call. Its answer is with the tenure's client; where there is none, what it gives says why. */
async function called(services: Services, job: Job, gate: JobGate, { client }: Tenure): Promise<GatewayError> {
  const { body: text, discountPpm } = job.input as DelayedInput
  const body = JSON.parse(text) as ChatRequest
  const raw = Buffer.from(text)
  try {
    const known = await services.policies.ofKey(job.keyId, '*')
    const order = {
      ...({ kind: 'chat', known, scope: '*', body, raw, requestId: job.requestId } as const),
      features: chatFeatures(body, raw.length),
      session: body.prompt_cache_key || null,
      ...{ stream: false, includeUsage: false },
      bulk: { owner: job.organisationId, discountPpm: BigInt(discountPpm), deadlineMs: job.deadlineAt.getTime() },
    }
    await run({ ...services, admission: gate }, order, client)
    return internalError(new Error('the run ended without an answer'))
  } catch (error) {
    if (error instanceof GatewayError) return error
    services.log.error({ err: error, job: job.id }, 'a delayed job could not be run')
    return internalError(error)
  }
}

/** Keeps the answer and ends the job with it. Throws what the stores throw when they are away for long. */
async function completed(services: Services, job: Job, gate: JobGate, tenure: Tenure): Promise<number | null> {
  const text = tenure.client.body!
  let file: StoredFile | null = null
  for (let tries = 1; ; tries++) {
    try {
      file ??= await stored(services, job, text)
      return await endedWith(services, job, gate, file, text)
    } catch (error) {
      if (tries === savingTries) throw error
      services.log.warn({ err: error, job: job.id }, 'the answer of a delayed job is kept later')
      await sleep(savingPauseMs, undefined, { signal: tenure.signal }).catch(() => {})
      if (tenure.cut === 'stopped') return handedBack(services, job)
      if (tenure.cut) return null
    }
  }
}

function stored({ files, clock, config }: Services, job: Job, text: string): Promise<StoredFile> {
  return files.store(bytesOf(Buffer.from(text)), {
    organisationId: job.organisationId,
    environment: job.environment,
    purpose: 'result',
    filename: `${job.id}.json`,
    contentType: 'application/json',
    expiresAtMs: clock.now() + config.resultRetentionDays * dayMs,
  })
}

async function endedWith(services: Services, job: Job, gate: JobGate, file: StoredFile, text: string): Promise<null> {
  const { id: answerId } = JSON.parse(text) as { id?: string }
  const ended = await endJob(services, job.id, {
    status: 'completed',
    logStatus: 200,
    result: file,
    costNano: gate.costNano,
    extraNano: BigInt(gate.extraNano),
    refund: false,
    expiresAt: new Date(services.clock.now() + services.config.resultRetentionDays * dayMs),
    ...gate.call(answerId ?? null),
  })
  if (ended) return null
  // Over already: by somebody else, or by us when nobody heard of it.
  const current = await services.delayed.read(job.id)
  if ((current?.result as StoredFile | null)?.fileId !== file.fileId) await services.files.remove([file])
  return null
}

async function over(services: Services, job: Job, end: End): Promise<null> {
  await endJob(services, job.id, end)
  return null
}

async function handedBack(services: Services, job: Job): Promise<number> {
  await services.delayed.putBack(job, failuresOf(job))
  return 0
}
