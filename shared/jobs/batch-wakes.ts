import type { Queue } from 'bullmq'

/** The queue that wakes workers for batches: one entry per batch, for as long as it is not over. */
export class BatchWakes {
  readonly #queue: Queue

  constructor(queue: Queue) {
    this.#queue = queue
  }

  /** Queues batches; those that are queued or run already stay as they are. */
  async add(...ids: string[]): Promise<void> {
    await this.#queue.addBulk(ids.map(id => ({ name: 'visit', data: { batchId: id }, opts: { jobId: id } })))
  }

  /** Has a batch visited now that waits for its next visit. */
  async hurry(id: string): Promise<void> {
    await this.add(id)
    const entry = await this.#queue.getJob(id)
    if (await entry?.isDelayed()) await entry!.promote()
  }

  /** How many wait for a worker. */
  waiting(): Promise<number> {
    return this.#queue.getWaitingCount()
  }
}
