import { delayedKind } from '../jobs/jobs.ts'
import type { Services } from '../services.ts'
import { endJob, expired } from './end.ts'

const mostPerTask = 500
/** So many jobs that cannot be ended are passed by; when more fail, it is not the jobs. */
const mostFailures = 10
/** A job that waits longer may have lost its place in the queue. */
const waitingLongMs = 30_000

/** Ends jobs past their deadline, delayed ones as well, and takes up starts that were cut off. */
export async function sweepJobs(services: Services): Promise<{ expired: number; lost: number }> {
  const { jobs, tasks, log } = services
  const overdue = await jobs.overdue(mostPerTask)
  let failures = 0
  for (const id of overdue) {
    try {
      const ended = await endJob(services, id, expired)
      if (ended?.operation && ended.kind !== delayedKind) await tasks.add('cancel', id)
    } catch (error) {
      log.error({ err: error, job: id }, 'cannot give up an overdue job')
      if (++failures > mostFailures) throw error
    }
  }
  const lost = await jobs.lostStarts(mostPerTask)
  if (lost.length > 0) await tasks.add('start', ...lost)
  return { expired: overdue.length - failures, lost: lost.length }
}

/** Puts back what the queue may have lost: waiting jobs, and running ones on the watch. Adding twice is once. */
export async function requeueJobs({ jobs, tasks, watch, clock }: Services): Promise<void> {
  const nowMs = clock.now()
  for await (const ids of jobs.idsAt('waiting', new Date(nowMs - waitingLongMs))) await tasks.restore('start', ids)
  for await (const ids of jobs.idsAt('running', new Date(nowMs))) await watch.add(ids, nowMs)
}
