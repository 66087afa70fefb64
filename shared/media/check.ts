import type { RunningJob } from '../jobs/jobs.ts'
import type { QueuedKind } from '../kinds/index.ts'
import { type Operation, ProviderError, type Report } from '../providers/contract.ts'
import type { Services } from '../services.ts'
import { connectionOf, reportsBack } from './connection.ts'
import { endJob, failed } from './end.ts'

/** What a look at a running job leads to: another look, the next step on the queue, or nothing more. */
export type Look = { waitMs: number; progress: number | null } | { task: 'start' | 'finish' } | null

const unconfiguredDelayMs = 30_000
/** Where the provider reports the end by itself, looking is only for reports that get lost. */
const reportedDelayMs = 30_000
const jitter = 0.1

/** Looks at a running job once. Never throws: a look that fails says nothing of the work. */
export async function lookAt(services: Services, job: RunningJob): Promise<Look> {
  const connection = connectionOf(services, job)
  if (!connection) return { waitMs: unconfiguredDelayMs, progress: null }
  const { adapter, protocol, line } = connection
  const nowMs = services.clock.now()
  // The longer it runs, the rarer it is looked at.
  const elapsedMs = nowMs - (job.startedAt ?? job.createdAt).getTime()
  const { firstMs, mostMs } = adapter.poll
  const grownMs = Math.min(Math.max(firstMs, elapsedMs / 10), mostMs)
  const calmMs = reportsBack(services, job, protocol) ? Math.max(grownMs, reportedDelayMs) : grownMs
  const waitMs = Math.round(calmMs * (1 - jitter + 2 * jitter * Math.random()))
  let report: Report<QueuedKind>
  try {
    report = await adapter.check(job.operation as Operation, line)
  } catch (error) {
    services.log[error instanceof ProviderError ? 'debug' : 'error'](
      { err: error, job: job.id },
      'a look at a job failed',
    )
    const askedMs = error instanceof ProviderError ? (error.retryAfterMs ?? 0) : 0
    return { waitMs: Math.min(Math.max(waitMs, mostMs, askedMs), 60_000), progress: null }
  }
  return act(services, job, report, waitMs)
}

async function act(services: Services, job: RunningJob, report: Report<QueuedKind>, waitMs: number): Promise<Look> {
  switch (report.status) {
    case 'pending':
      return { waitMs, progress: report.progress }
    case 'next':
      return (await services.jobs.nextPart(job.id, report.operation, report.progress)) ? { task: 'start' } : null
    case 'completed':
      return { task: 'finish' }
    case 'failed':
      await endJob(services, job.id, failed(report.error), 'running')
      return null
  }
}
