import { randomUUID } from 'node:crypto'
import { dayMs } from '../base/time.ts'
import type { Job } from '../jobs/jobs.ts'
import { maxOpenStarts } from '../jobs/suspects.ts'
import { type QueuedKind, queuedKinds } from '../kinds/index.ts'
import type { Invoice, MediaOutput, QueuedKindRow } from '../kinds/media.ts'
import { type Operation, ProviderError } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import { type Connection, connectionOf } from './connection.ts'
import { endJob, failed, poisonous } from './end.ts'
import type { JobResult, Output } from './present.ts'
import { storeResult } from './results.ts'
import type { JobInput } from './submit.ts'

const againMs = 10_000

/**
 * Takes the results of finished work in. Gives the delay in milliseconds after which to come back where a store, the
 * provider or its files' host is away, for as long as the job has time; null when there is nothing left to do. Results
 * that will be no better the next time fail the job.
 */
export async function finishJob(services: Services, jobId: string): Promise<number | null> {
  const job = await services.jobs.read(jobId)
  if (job?.stage !== 'running') return null
  if (job.openStarts >= maxOpenStarts) {
    const ended = await endJob(services, jobId, poisonous, 'running')
    if (ended) await services.tasks.add('cancel', jobId)
    return null
  }
  const end = () => services.jobs.endStart(jobId)
  const finish = async () => {
    if (!(await services.jobs.beginFinish(jobId))) return null
    const delayMs = await finishBegun(services, jobId)
    await end()
    return delayMs
  }
  return services.suspects.run(job.openStarts, finish, end)
}

async function finishBegun(services: Services, jobId: string): Promise<number | null> {
  try {
    await takeIn(services, jobId)
    return null
  } catch (error) {
    services.log.warn({ err: error, job: jobId }, 'cannot take in the results of a job')
    if (!(error instanceof ProviderError) || error.reason !== 'invalid_response') return againMs
    const message = 'The provider finished the work, but its results could not be fetched.'
    const unusable = new ProviderError('invalid_response', message, { cause: error })
    await endJob(services, jobId, failed(unusable), 'running')
    return null
  }
}

/**
 * Looks once more, as addresses of results are short-lived, copies the files into our storage, and ends the job with its
 * price. A look that fails says nothing of the work: the watch looks again.
 */
async function takeIn(services: Services, jobId: string): Promise<void> {
  const job = await services.jobs.read(jobId)
  if (job?.stage !== 'running') return
  const connection = connectionOf(services, job)
  if (!connection) throw new Error(`provider ${job.provider} is not configured`)
  const { adapter, line } = connection
  const report = await adapter.check(job.operation as Operation, line).catch(error => {
    if (error instanceof ProviderError) return null
    throw error
  })
  if (!report) return services.watch.add([jobId], services.clock.now() + adapter.poll.mostMs)
  if (report.status === 'failed') return void (await endJob(services, jobId, failed(report.error), 'running'))
  if (report.status !== 'completed') return services.watch.add([jobId], services.clock.now())
  const expiresAt = new Date(services.clock.now() + services.config.resultRetentionDays * dayMs)
  const outputs = await store(services, job, connection, report.output, expiresAt)
  const length = outputs.find(({ durationS }) => durationS !== null)?.durationS ?? report.output.durationS
  const { credits, seconds } = report.invoice
  const invoice = { credits: plausible(credits), seconds: plausible(length ?? seconds) }
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

/** More seconds or credits than any work has. */
const implausible = 10_000_000

/** What a provider counts is no amount until it looks like one. */
function plausible(count: number | null): number | null {
  return count !== null && count >= 0 && count < implausible ? count : null
}

async function store(
  services: Services,
  job: Job,
  { line }: Connection,
  { files }: MediaOutput,
  expiresAt: Date,
): Promise<Output[]> {
  if (files.length === 0) throw new ProviderError('invalid_response', 'The provider’s result has no files.')
  // Names of this visit's own: another one that does the same must neither write over these files nor remove them.
  const visit = { id: `${job.id} ${randomUUID()}`, organisationId: job.organisationId, environment: job.environment }
  const outputs: Output[] = []
  try {
    for (const [index, file] of files.entries()) {
      const name = `${job.id}-${index}`
      const stored = await storeResult(services, line, visit, file, name, expiresAt.getTime())
      outputs.push({ ...stored, role: file.role })
    }
    return outputs
  } catch (error) {
    await services.files.remove(outputs).catch(() => {}) // They expire.
    throw error
  }
}

/** What a held job costs by its end; where that tells nothing, what was held. */
function priceOf(services: Services, job: Job, invoice: Invoice): { costNano?: bigint } {
  const row = queuedKinds[job.kind as QueuedKind] as unknown as QueuedKindRow<unknown, object>
  if (!row.cost || job.environment === 'test') return {}
  return { costNano: costOf(services, job, row.cost, invoice) ?? job.holdNano }
}

function costOf(
  { catalog, config, log }: Services,
  job: Job,
  cost: NonNullable<QueuedKindRow<unknown, object>['cost']>,
  invoice: Invoice,
): bigint | null {
  const deployment = catalog.models.get(job.model)?.providers.find(({ provider }) => provider === job.provider)
  if (!deployment) return null
  try {
    return cost((job.input as unknown as JobInput).input, deployment, config.marginPpm, invoice)
  } catch (error) {
    // The catalog has another price since: finished work is not held up by it.
    log.error({ err: error, job: job.id }, 'the cost of a job cannot be worked out: it costs what was held')
    return null
  }
}
