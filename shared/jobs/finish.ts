import { randomUUID } from 'node:crypto'
import { dayMs } from '../base/time.ts'
import type { FileServices } from '../files/file-services.ts'
import { type QueuedKind, queuedKinds } from '../kinds/index.ts'
import type { Invoice, MediaOutput, QueuedKindRow } from '../kinds/media.ts'
import type { Platform } from '../platform.ts'
import type { Operation } from '../providers/contract.ts'
import { ownKeyMarginPpm } from '../providers/own-accounts.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { maxOpenStarts } from '../queues/crash-suspect-limiter.ts'
import { runLeased } from '../queues/run-lease.ts'
import { traceStep } from '../traces/work.ts'
import { endJob, failedEnd, ownKeyGoneEnd, poisonedEnd } from './end.ts'
import { type JobProvider, jobProviderOf } from './job-provider.ts'
import type { JobServices } from './job-services.ts'
import type { Job } from './jobs.ts'
import type { JobResult, Output } from './present.ts'
import { storeResult } from './results.ts'
import { storeOutcome } from './start.ts'
import { type JobInput, quotedNanoOf } from './submit.ts'

const retryDelayMs = 10_000

/**
 * Imports the results of finished work. Returns the delay in milliseconds before a retry if a store, the provider or its
 * file host is unavailable, until the job's deadline; null when there is nothing left to do. Unusable results fail the job.
 */
export function finishJob(services: JobServices, jobId: string): Promise<number | null> {
  return runLeased(services, { table: 'jobs', id: jobId }, () => finishLeased(services, jobId))
}

async function finishLeased(services: JobServices, jobId: string): Promise<number | null> {
  const job = await services.jobs.read(jobId)
  if (job?.stage !== 'running') return null
  if (job.openStarts >= maxOpenStarts) {
    const ended = await endJob(services, jobId, poisonedEnd, 'running')
    if (ended) await services.mediaTasks.add('cancel', jobId)
    return null
  }
  const end = () => services.jobs.endStart(jobId)
  const finish = async () => {
    if (!(await services.jobs.beginFinish(jobId))) return null
    const step = { traceparent: job.traceparent, queue: 'media', name: `import ${job.kind}`, id: jobId }
    try {
      return await traceStep(services.tracing, step, () => importOrFail(services, jobId))
    } finally {
      // A start that stays counted is taken for one that killed its worker.
      await storeOutcome(services, job, end)
    }
  }
  return services.crashSuspects.run(job.openStarts, finish, end)
}

async function importOrFail(services: JobServices, jobId: string): Promise<number | null> {
  try {
    await importResults(services, jobId)
    return null
  } catch (error) {
    services.log.warn({ err: error, job: jobId }, 'cannot store the results of a job')
    if (!(error instanceof ProviderError) || error.reason !== 'invalid_response') return retryDelayMs
    const message = 'The provider finished the work, but its results could not be fetched.'
    const unusable = new ProviderError('invalid_response', message, { cause: error })
    await endJob(services, jobId, failedEnd(unusable), 'running')
    return null
  }
}

/**
 * Polls once more because result URLs are short-lived, copies the files into our storage, and ends the job with its price.
 * A failed poll says nothing about the work: the poll schedule retries it.
 */
async function importResults(services: JobServices, jobId: string): Promise<void> {
  const job = await services.jobs.read(jobId)
  if (job?.stage !== 'running') return
  const jobProvider = await jobProviderOf(services, job)
  if (jobProvider === 'own_key_gone') return void (await endJob(services, jobId, ownKeyGoneEnd, 'running'))
  if (!jobProvider) throw new Error(`provider ${job.provider} is not configured`)
  const { adapter, connection } = jobProvider
  const report = await adapter.check(job.operation as Operation, connection).catch(error => {
    if (error instanceof ProviderError) return null
    throw error
  })
  if (!report) return services.pollSchedule.add([jobId], services.clock.now() + adapter.poll.maxMs)
  if (report.status === 'failed') return void (await endJob(services, jobId, failedEnd(report.error), 'running'))
  if (report.status !== 'completed') return services.pollSchedule.add([jobId], services.clock.now())
  const expiresAt = new Date(services.clock.now() + services.config.resultRetentionDays * dayMs)
  const outputs = await storeOutputs(services, job, jobProvider, report.output, expiresAt)
  const length = outputs.find(({ durationS }) => durationS !== null)?.durationS ?? report.output.durationS
  const { credits, seconds } = report.invoice
  const invoice = { credits: plausibleOrNull(credits), seconds: plausibleOrNull(length ?? seconds) }
  const ended = await endJob(
    services,
    jobId,
    {
      status: 'completed',
      logStatus: 200,
      result: { outputs } satisfies JobResult,
      ...priceOf(services, job, invoice),
      refund: false,
      expiresAt,
    },
    'running',
  )
  if (!ended) await services.files.remove(outputs)
}

/** Upper bound of seconds or credits that any work can have. */
const maxPlausibleCount = 10_000_000

/** Returns a provider's count if it is plausible, else null. */
function plausibleOrNull(count: number | null): number | null {
  return count !== null && count >= 0 && count < maxPlausibleCount ? count : null
}

async function storeOutputs(
  services: FileServices,
  job: Job,
  { connection }: JobProvider,
  { files }: MediaOutput,
  expiresAt: Date,
): Promise<Output[]> {
  if (files.length === 0) throw new ProviderError('invalid_response', 'The provider’s result has no files.')
  // File names unique to this step: a concurrent step must neither overwrite nor remove these files.
  const step = { id: `${job.id} ${randomUUID()}`, organisationId: job.organisationId, environment: job.environment }
  const outputs: Output[] = []
  try {
    for (const [index, file] of files.entries()) {
      const name = `${job.id}-${index}`
      const stored = await storeResult(services, connection, step, file, name, expiresAt.getTime())
      outputs.push({ ...stored, role: file.role })
    }
    return outputs
  } catch (error) {
    await services.files.remove(outputs).catch(() => {}) // They expire.
    throw error
  }
}

/** The final cost of a job with a hold; the hold itself if the cost cannot be computed. */
function priceOf(services: Platform, job: Job, invoice: Invoice): { costNano?: bigint } {
  const row = queuedKinds[job.kind as QueuedKind] as unknown as QueuedKindRow<unknown, object>
  if (!row.cost || job.environment === 'test') return {}
  return { costNano: costOf(services, job, row.cost, invoice) ?? quotedNanoOf(job) }
}

function costOf(
  { catalog, config, log }: Platform,
  job: Job,
  cost: NonNullable<QueuedKindRow<unknown, object>['cost']>,
  invoice: Invoice,
): bigint | null {
  const deployment = catalog.models.get(job.model)?.providers.find(({ provider }) => provider === job.provider)
  if (!deployment) return null
  try {
    const { input, own } = job.input as unknown as JobInput
    return cost(input, deployment, own ? ownKeyMarginPpm(config) : config.marginPpm, invoice)
  } catch (error) {
    // The catalog's price has changed since: finished work must not fail because of it.
    log.error({ err: error, job: job.id }, 'the cost of a job cannot be worked out: it costs what was held')
    return null
  }
}
