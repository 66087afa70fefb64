import type { Queue } from 'bullmq'

export const mediaTasks = ['start', 'finish', 'cancel'] as const
export type MediaTask = (typeof mediaTasks)[number]
export type MediaTaskData = { jobId: string }

/** Results that cannot be fetched so often in half a minute are given up: what is wrong is their address, not ours. */
const finishAttempts = 5

/** The queue of steps that have an effect: start, copy the results and settle, stop. Its payloads are ids. */
export class Tasks {
  readonly #queue: Queue

  constructor(queue: Queue) {
    this.#queue = queue
  }

  /** Queues a step of a job; while it is queued or runs, the same step is not queued again. */
  async add(task: MediaTask, ...jobIds: string[]): Promise<void> {
    await this.#queue.addBulk(
      jobIds.map(jobId => ({
        name: task,
        data: { jobId } satisfies MediaTaskData,
        opts: { jobId: `${task}-${jobId}`, ...(task === 'finish' && { attempts: finishAttempts }) },
      })),
    )
  }
}
