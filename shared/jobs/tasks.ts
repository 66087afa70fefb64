import type { Queue } from 'bullmq'
import type { Redis } from '../io/redis.ts'

export const mediaTasks = ['start', 'finish', 'cancel'] as const
export type MediaTask = (typeof mediaTasks)[number]
/** Turns of delayed jobs: each job's own, and one more where its worker died and took that with it. */
export type DelayedTask = 'run' | 'again'
export type TaskData = { jobId: string }

/** A queue of steps that have an effect, such as start, copy the results and settle, stop. Its payloads are ids. */
export class Tasks<Task extends string> {
  readonly #queue: Queue
  readonly #redis: Redis

  constructor(queue: Queue, redis: Redis) {
    this.#queue = queue
    this.#redis = redis
  }

  /** Queues a step of jobs; while it is queued or runs, the same step is not queued again. */
  add(task: Task, ...jobIds: string[]): Promise<void> {
    return this.addLater(task, 0, ...jobIds)
  }

  /** Queues a step of jobs, to be taken after `delayMs`. */
  async addLater(task: Task, delayMs: number, ...jobIds: string[]): Promise<void> {
    await this.#queue.addBulk(
      jobIds.map(jobId => ({
        name: task,
        data: { jobId } satisfies TaskData,
        opts: { jobId: entryId(task, jobId), delay: delayMs },
      })),
    )
  }

  /** Queues a step of those jobs for which it is not queued: cheap where most are. */
  async restore(task: Task, jobIds: readonly string[]): Promise<void> {
    const pipeline = this.#redis.pipeline()
    for (const jobId of jobIds) pipeline.exists(this.#queue.toKey(entryId(task, jobId)))
    const replies = (await pipeline.exec()) ?? []
    const lost = jobIds.filter((_, i) => replies[i]?.[1] === 0)
    if (lost.length > 0) await this.add(task, ...lost)
  }
}

/** One entry of the queue per job and step. */
function entryId(task: string, jobId: string): string {
  return `${task}-${jobId}`
}
