import { DelayedError, type Job, WaitingError, Worker } from 'bullmq'
import type { Config } from '../shared/base/config.ts'
import { systemClock } from '../shared/base/time.ts'
import type { Redis } from '../shared/io/redis.ts'
import type { Services } from '../shared/open-services.ts'
import { recordRun } from '../shared/queues/housekeeping.ts'
import { defaultLockMs, type QueueName, type QueueRow, queuePrefix, queues } from '../shared/queues/queues.ts'

/** The outcome of processing a queue entry: done, or to be processed again after a delay, which is no failed attempt. */
export type Outcome = { state: 'done' } | { state: 'later'; delayMs: number }
export const done: Outcome = { state: 'done' }
export const retryIn = (delayMs: number): Outcome => ({ state: 'later', delayMs: Math.max(0, Math.ceil(delayMs)) })

/** Processes one queue entry; `name` is the task. If it throws, the entry is retried as the queue's row in `queues` says. */
export type Processor = (name: string, data: unknown, services: Services) => Promise<Outcome>

/** A queue and its processor. */
export type QueueWork = {
  queue: QueueName
  processor: Processor
}

/** Retry delay of a worker after a connection error. */
const retryDelayMs = 1_000
/**
 * How often an entry may stall because its worker died, mostly of other work. Poison work is failed by its row's own count,
 * and requeued until then; this limit is for steps without such a count.
 */
const maxStalled = 50
/** How long an entry waits that is delivered while its earlier run is alive. */
const revisitMs = 5_000
/** For so many minutes it is known how many entries were completed in each. */
const keptMinutes = 60

/** A run of an entry in this process; `isSuperseded` once the queue has delivered its entry again. */
type Run = { isSuperseded: boolean }

/** How many entries of a queue one worker process runs concurrently. */
export function slotsOf(queue: QueueName, { workerConcurrency }: Config): number {
  return queues[queue].concurrency(workerConcurrency)
}

/**
 * The single wrapper of all processors: delays, retries, stalled jobs, logging. An entry has one run at a time in this
 * process: if its lock is lost while the run is alive, the next delivery waits until that has ended. `connection` has no
 * key prefix. Returns the running worker.
 */
export function runQueue(work: QueueWork, services: Services, connection: Redis): Worker {
  const log = services.log.child({ queue: work.queue })
  const runs = new Map<string, Run>()
  // The delays that BullMQ computes are of the wall clock: another worker has the right one.
  const leaveIfClockIsWrong = async (job: Job, token?: string) => {
    if (services.clockSkew.check()) return
    await job.moveToWait(token)
    throw new WaitingError()
  }
  const processEntry = async (job: Job, token?: string) => {
    await leaveIfClockIsWrong(job, token)
    const outcome = await runOnce(runs, job, () => work.processor(job.name, job.data, services)).catch(async error => {
      // Then another delivery has its lock.
      if (!(error instanceof DelayedError)) await leaveIfClockIsWrong(job, token)
      throw error
    })
    if (outcome.state === 'done') return recordRun(services.redis, work.queue, job.name, services.clock.now())
    await leaveIfClockIsWrong(job, token)
    // BullMQ compares it with the machine's clock.
    await job.moveToDelayed(systemClock.now() + outcome.delayMs, token)
    throw new DelayedError()
  }
  const { lockMs = defaultLockMs }: QueueRow = queues[work.queue]
  const worker = new Worker(work.queue, processEntry, {
    connection,
    prefix: queuePrefix(work.queue, services.config),
    runRetryDelay: retryDelayMs,
    lockDuration: lockMs,
    stalledInterval: lockMs / 2,
    maxStalledCount: maxStalled,
    concurrency: slotsOf(work.queue, services.config),
    metrics: { maxDataPoints: keptMinutes },
  })
  const pauseOrResume = (isBounded: boolean) => void (isBounded ? worker.resume() : worker.pause(true))
  services.clockSkew.onChange(pauseOrResume)
  if (!services.clockSkew.check()) pauseOrResume(false)
  worker.on('failed', (job, error) =>
    log.error({ err: error, job: job?.name, attempts: job?.attemptsMade }, 'job failed'),
  )
  worker.on('stalled', jobId => log.warn({ jobId }, 'job stalled and is retried'))
  worker.on('error', error => log.warn({ err: error }, 'queue connection'))
  return worker
}

/**
 * Runs an entry, unless an earlier run of it is alive: then it is to be processed again later. When that run ends, its
 * lock is another delivery's: it throws DelayedError, on which BullMQ leaves the entry as it is.
 */
async function runOnce(runs: Map<string, Run>, job: Job, process: () => Promise<Outcome>): Promise<Outcome> {
  const id = job.id!
  const earlier = runs.get(id)
  if (earlier) {
    earlier.isSuperseded = true
    return retryIn(revisitMs)
  }
  const run: Run = { isSuperseded: false }
  runs.set(id, run)
  try {
    const outcome = await process()
    if (!run.isSuperseded) return outcome
    // The entry waits for a fixed time, or is being processed: then its row says when it is due.
    if (outcome.state === 'later') await job.changeDelay(outcome.delayMs).catch(() => {})
    throw new DelayedError()
  } finally {
    runs.delete(id)
  }
}
