import type { QueuedKind } from '../kinds/index.ts'
import type { Operation, PollReport } from '../providers/contract.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { endJob, failedEnd, ownKeyGoneEnd } from './end.ts'
import { jobProviderOf, reportsBack, unconfiguredDelayMs } from './job-provider.ts'
import type { JobServices } from './job-services.ts'
import type { RunningJob } from './jobs.ts'

/** The outcome of polling a running job: another poll, the next step on the queue, or nothing more. */
export type PollResult = { waitMs: number; progress: number | null } | { task: 'start' | 'finish' } | null

/** Where the provider reports completion by callback, polling only covers lost callbacks. */
const callbackPollDelayMs = 30_000
const jitter = 0.1

/** Polls a running job once. A failed poll is an ordinary result; rejects only with what the stores throw. */
export async function pollJob(services: JobServices, job: RunningJob): Promise<PollResult> {
  const jobProvider = await jobProviderOf(services, job)
  if (jobProvider === 'own_key_gone') {
    await endJob(services, job.id, ownKeyGoneEnd, 'running')
    return null
  }
  if (!jobProvider) return { waitMs: unconfiguredDelayMs, progress: null }
  const { adapter, protocol, connection } = jobProvider
  const nowMs = services.clock.now()
  // The poll interval grows with the job's age.
  const ageMs = nowMs - (job.startedAt ?? job.createdAt).getTime()
  const { firstMs, maxMs } = adapter.poll
  const intervalMs = Math.min(Math.max(firstMs, ageMs / 10), maxMs)
  const baseMs = reportsBack(services, job, protocol) ? Math.max(intervalMs, callbackPollDelayMs) : intervalMs
  const waitMs = Math.round(baseMs * (1 - jitter + 2 * jitter * Math.random()))
  let report: PollReport<QueuedKind>
  try {
    report = await adapter.check(job.operation as Operation, connection)
  } catch (error) {
    services.log[error instanceof ProviderError ? 'debug' : 'error'](
      { err: error, job: job.id },
      'polling a job failed',
    )
    const retryAfterMs = error instanceof ProviderError ? (error.retryAfterMs ?? 0) : 0
    return { waitMs: Math.min(Math.max(waitMs, maxMs, retryAfterMs), 60_000), progress: null }
  }
  return applyReport(services, job, report, waitMs)
}

async function applyReport(
  services: JobServices,
  job: RunningJob,
  report: PollReport<QueuedKind>,
  waitMs: number,
): Promise<PollResult> {
  switch (report.status) {
    case 'pending':
      return { waitMs, progress: report.progress }
    case 'next':
      return (await services.jobs.advancePart(job, report.operation, report.progress)) ? { task: 'start' } : null
    case 'completed':
      return { task: 'finish' }
    case 'failed':
      await endJob(services, job.id, failedEnd(report.error), 'running')
      return null
  }
}
