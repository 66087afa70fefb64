import { DelayedError, type Job, Worker } from 'bullmq'
import type { Config } from '../shared/base/config.ts'
import type { Redis } from '../shared/io/redis.ts'
import { type QueueName, type QueueRow, queues } from '../shared/jobs/queues.ts'
import type { Services } from '../shared/services.ts'

/** What a visit to a job came to: it is done with, or wants another visit after a while, which counts as no attempt. */
export type Outcome = { state: 'done' } | { state: 'later'; delayMs: number }
export const done: Outcome = { state: 'done' }
export const later = (delayMs: number): Outcome => ({ state: 'later', delayMs: Math.max(0, Math.ceil(delayMs)) })

/** Does one job's work; `name` tells which task of the queue it is. What it throws is tried again as the queue's row says. */
export type Processor = (name: string, data: unknown, services: Services) => Promise<Outcome>

/** What one queue is worked with. */
export type QueueWork = {
  queue: QueueName
  processor: Processor
}

/** After a fault of the connection a worker looks again this soon. */
const retryDelayMs = 1_000
const usualLockMs = 20_000
/**
 * An entry may see this many workers die: most of them die of other work. What a row stands for is given up by the row's own
 * count, and has a new entry as long as it is not; this is for the steps that have none.
 */
const maxStalled = 50

/** How many jobs of a queue one worker process runs at once. */
export function placesOf(queue: QueueName, { workerConcurrency }: Config): number {
  return queues[queue].concurrency(workerConcurrency)
}

/** The one wrapper of all processors: later visits, retries, stalled jobs, logging. Gives the running worker. */
export function runQueue(work: QueueWork, services: Services, connection: Redis): Worker {
  const log = services.log.child({ queue: work.queue })
  const visit = async (job: Job, token?: string) => {
    const outcome = await work.processor(job.name, job.data, services)
    if (outcome.state === 'done') return
    await job.moveToDelayed(Date.now() + outcome.delayMs, token)
    throw new DelayedError()
  }
  const { lockMs = usualLockMs }: QueueRow = queues[work.queue]
  const worker = new Worker(work.queue, visit, {
    connection,
    runRetryDelay: retryDelayMs,
    lockDuration: lockMs,
    stalledInterval: lockMs / 2,
    maxStalledCount: maxStalled,
    concurrency: placesOf(work.queue, services.config),
  })
  worker.on('failed', (job, error) =>
    log.error({ err: error, job: job?.name, attempts: job?.attemptsMade }, 'job failed'),
  )
  worker.on('stalled', jobId => log.warn({ jobId }, 'job stalled and is taken up again'))
  worker.on('error', error => log.warn({ err: error }, 'queue connection'))
  return worker
}
