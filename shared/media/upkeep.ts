import type { Services } from '../services.ts'
import { endJob, expired } from './end.ts'

const mostPerTask = 500
/** A job that waits longer may have lost its place in the queue. */
const waitingLongMs = 30_000

/** Ends jobs past their deadline and takes up starts that were cut off. */
export async function sweepJobs(services: Services): Promise<{ expired: number; lost: number }> {
  const { jobs, tasks, clock } = services
  const { overdue, lost } = await jobs.neglected(new Date(clock.now() - waitingLongMs), mostPerTask)
  for (const id of overdue) {
    const ended = await endJob(services, id, expired)
    if (ended?.operation) await tasks.add('cancel', id)
  }
  if (lost.length > 0) await tasks.add('start', ...lost)
  return { expired: overdue.length, lost: lost.length }
}

/** Puts back what the queue may have lost: waiting jobs, and running ones on the watch. Adding twice is once. */
export async function requeueJobs(services: Services): Promise<void> {
  const { jobs, tasks, watch, clock } = services
  const nowMs = clock.now()
  const { waiting } = await jobs.neglected(new Date(nowMs - waitingLongMs), mostPerTask)
  if (waiting.length > 0) await tasks.add('start', ...waiting)
  for await (const ids of jobs.runningIds()) await watch.add(ids, nowMs)
}
