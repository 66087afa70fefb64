import { endJob, expiredEnd } from './end.ts'
import type { JobServices } from './job-services.ts'
import { delayedKind } from './jobs.ts'

const maxPerTask = 500
/** Jobs that cannot be ended are skipped up to this number; more failures indicate a general fault, which is thrown. */
const maxFailures = 10
/** A job that waits longer may have lost its queue entry. */
const maxWaitingMs = 30_000

/** Ends jobs past their deadline, including delayed ones, and resumes interrupted starts. */
export async function sweepJobs(services: JobServices): Promise<{ expired: number; lost: number }> {
  const { jobs, mediaTasks, log } = services
  const overdue = await jobs.listOverdue(maxPerTask)
  let failures = 0
  for (const id of overdue) {
    try {
      const ended = await endJob(services, id, expiredEnd)
      if (ended?.operation && ended.kind !== delayedKind) await mediaTasks.add('cancel', id)
    } catch (error) {
      log.error({ err: error, job: id }, 'cannot expire an overdue job')
      if (++failures > maxFailures) throw error
    }
  }
  const lost = await jobs.listLostStarts(maxPerTask)
  if (lost.length > 0) await mediaTasks.add('start', ...lost)
  return { expired: overdue.length - failures, lost: lost.length }
}

/** Requeues waiting jobs and re-adds running ones to the poll schedule, in case Redis lost them. Idempotent. */
export async function requeueJobs({ jobs, mediaTasks, pollSchedule, clock }: JobServices): Promise<void> {
  const nowMs = clock.now()
  for await (const ids of jobs.idsAt('waiting', new Date(nowMs - maxWaitingMs))) await mediaTasks.restore('start', ids)
  for await (const ids of jobs.idsAt('running', new Date(nowMs))) await pollSchedule.add(ids, nowMs)
}
