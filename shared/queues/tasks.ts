import type { Queue } from 'bullmq'
import type { Clock } from '../base/time.ts'
import type { Redis } from '../io/redis.ts'

export const mediaTasks = ['start', 'finish', 'cancel'] as const
export type MediaTask = (typeof mediaTasks)[number]
/** Entries of delayed jobs: `run` for each job, and `again` to replace an entry that was lost with its worker. */
export type DelayedTask = 'run' | 'again'
export type TaskData = { jobId: string }

/** A queue of job steps with side effects: start, finish (copy the results and settle), cancel. Payloads are job ids. */
export class Tasks<Task extends string> {
  readonly #queue: Queue
  readonly #redis: Redis
  readonly #clock: Clock

  /** `redis` has no key prefix, as the queue's connection. */
  constructor(queue: Queue, redis: Redis, clock: Clock) {
    this.#queue = queue
    this.#redis = redis
    this.#clock = clock
  }

  /** Queues a step of jobs, unless the same step is queued or running already. */
  add(task: Task, ...jobIds: string[]): Promise<void> {
    return this.addLater(task, 0, ...jobIds)
  }

  /** Queues a step of jobs to run after `delayMs`. */
  async addLater(task: Task, delayMs: number, ...jobIds: string[]): Promise<void> {
    // BullMQ's own is the wall clock of this machine, whose error would be added to the delay.
    const timestamp = this.#clock.now()
    await this.#queue.addBulk(
      jobIds.map(jobId => ({
        name: task,
        data: { jobId } satisfies TaskData,
        opts: { jobId: entryId(task, jobId), delay: delayMs, timestamp },
      })),
    )
  }

  /** Queues a step again for the jobs that have no entry; cheap when most have one. */
  async restore(task: Task, jobIds: readonly string[]): Promise<void> {
    const pipeline = this.#redis.pipeline()
    for (const jobId of jobIds) pipeline.exists(this.#queue.toKey(entryId(task, jobId)))
    const replies = (await pipeline.exec()) ?? []
    const missing = jobIds.filter((_, i) => replies[i]?.[1] === 0)
    if (missing.length > 0) await this.add(task, ...missing)
  }
}

/** Deduplicates entries by job and step. */
function entryId(task: string, jobId: string): string {
  return `${task}-${jobId}`
}
