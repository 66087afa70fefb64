import { endLateJob } from './cancel.ts'
import { endJob, expiredEnd } from './end.ts'
import type { JobServices } from './job-services.ts'
import { delayedKind } from './jobs.ts'
import type { JobInput } from './submit.ts'

const maxPerTask = 500
/** Jobs that cannot be ended are skipped up to this number; more failures indicate a general fault, which is thrown. */
const maxFailures = 10
/** A job that waits longer may have lost its queue entry. */
export const maxWaitingMs = 30_000

/** Ends jobs past their deadline, including delayed ones, and resumes interrupted starts. */
export async function sweepJobs(services: JobServices): Promise<{ expired: number; lost: number }> {
  const { jobs, mediaTasks, log } = services
  const overdue = await jobs.listOverdue(maxPerTask)
  let failures = 0
  for (const id of overdue) {
    try {
      await expire(services, id)
    } catch (error) {
      log.error({ err: error, job: id }, 'cannot expire an overdue job')
      if (++failures > maxFailures) throw error
    }
  }
  const lost = await jobs.listLostStarts(maxPerTask)
  if (lost.length > 0) await mediaTasks.add('start', ...lost)
  return { expired: overdue.length - failures, lost: lost.length }
}

/** Ends a job past its deadline. Nothing is charged, unless its caller has set it. */
async function expire(services: JobServices, id: string): Promise<void> {
  const job = await services.jobs.read(id)
  const { timeoutMs } = (job?.input ?? {}) as Partial<JobInput>
  if (job && job.kind !== delayedKind && timeoutMs !== undefined) return endLateJob(services, job, timeoutMs)
  const ended = await endJob(services, id, expiredEnd)
  if (ended?.operation && ended.kind !== delayedKind) await services.mediaTasks.add('cancel', id)
}

/** Requeues waiting jobs and re-adds running ones to the poll schedule, in case Redis lost them. Idempotent. */
export async function requeueJobs({ jobs, mediaTasks, pollSchedule, clock }: JobServices): Promise<void> {
  const nowMs = clock.now()
  for await (const ids of jobs.listIdsAt('waiting', new Date(nowMs - maxWaitingMs)))
    await mediaTasks.restore('start', ids)
  for await (const ids of jobs.listIdsAt('running', new Date(nowMs))) await pollSchedule.add(ids, nowMs)
}
