import { GatewayError } from '../base/errors.ts'
import type { Job } from '../jobs/jobs.ts'
import { type QueuedKind, queuedKinds } from '../kinds/index.ts'
import type { Invoice, MediaOutput, QueuedKindRow } from '../kinds/media.ts'
import { type Operation, ProviderError } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import { type Connection, connectionOf } from './connection.ts'
import { endJob, failed } from './end.ts'
import type { JobResult, Output } from './present.ts'
import { storeResult } from './results.ts'
import type { JobInput } from './submit.ts'

const dayMs = 24 * 3_600_000

const ownFaultDelayMs = 10_000

/**
 * Takes the results of finished work in. Gives the delay in milliseconds after which to come back when our own stores are
 * at fault, else null. Throws what the provider or its files are at fault for: that is tried a few times only.
 */
export async function finishJob(services: Services, jobId: string): Promise<number | null> {
  try {
    await takeIn(services, jobId)
    return null
  } catch (error) {
    if (error instanceof GatewayError || error instanceof ProviderError) throw error
    services.log.error({ err: error, job: jobId }, 'cannot take in the results of a job')
    return ownFaultDelayMs
  }
}

/**
 * Looks once more, as addresses of results are short-lived, copies the files into our storage, and ends the job with its
 * price.
 */
async function takeIn(services: Services, jobId: string): Promise<void> {
  const job = await services.jobs.read(jobId)
  if (job?.stage !== 'running') return
  const connection = connectionOf(services, job)
  if (!connection) throw new Error(`provider ${job.provider} is not configured`)
  const report = await connection.adapter.check(job.operation as Operation, connection.line)
  if (report.status === 'failed') return void (await endJob(services, jobId, failed(report.error), 'running'))
  if (report.status !== 'completed') return services.watch.add([jobId], services.clock.now())
  const expiresAt = new Date(services.clock.now() + services.config.resultRetentionDays * dayMs)
  const outputs = await store(services, job, connection, report.output, expiresAt)
  const seconds = outputs.find(({ durationS }) => durationS !== null)?.durationS ?? report.output.durationS
  const invoice = { credits: report.invoice.credits, seconds: seconds ?? report.invoice.seconds }
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

/** Nobody can get at the results: the job fails and is refunded. */
export async function giveUpFinish(services: Services, jobId: string, cause: unknown): Promise<void> {
  const message = 'The provider finished the work, but its results could not be fetched.'
  await endJob(services, jobId, failed(new ProviderError('invalid_response', message, { cause })), 'running')
}

async function store(
  services: Services,
  job: Job,
  { line }: Connection,
  { files }: MediaOutput,
  expiresAt: Date,
): Promise<Output[]> {
  const outputs: Output[] = []
  for (const [index, file] of files.entries()) {
    const name = `${job.id}-${index}`
    const stored = await storeResult(services, line, job, file, name, expiresAt.getTime())
    outputs.push({ ...stored, role: file.role })
  }
  return outputs
}

/** What a held job costs by its end; where that tells nothing, what was held. A capped key never pays more than it held. */
function priceOf({ catalog, config }: Services, job: Job, invoice: Invoice): { costNano?: bigint } {
  const row = queuedKinds[job.kind as QueuedKind] as unknown as QueuedKindRow<unknown, object>
  const model = catalog.models.get(job.model)
  const deployment = model?.providers.find(({ provider }) => provider === job.provider)
  if (!row.cost || job.environment === 'test') return {}
  const { input } = job.input as unknown as JobInput
  const costNano = (deployment && row.cost(input, deployment, config.marginPpm, invoice)) ?? job.holdNano
  return { costNano: job.capNano !== null && costNano > job.holdNano ? job.holdNano : costNano }
}
