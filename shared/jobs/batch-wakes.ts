import type { Queue } from 'bullmq'

/** Longer than one that found no place stays away. */
const refusedForMs = 5_000

/** The queue that wakes workers for batches: one entry per batch, for as long as it is not over. */
export class BatchWakes {
  readonly #queue: Queue
  #refusedMs = Number.NEGATIVE_INFINITY

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

  /** A batch found no place in this process: it waits as well, though it comes back by itself. */
  refused(nowMs: number): void {
    this.#refusedMs = nowMs
  }

  /** Whether any wait for a worker. */
  async areWaiting(nowMs: number): Promise<boolean> {
    return nowMs - this.#refusedMs < refusedForMs || (await this.#queue.getWaitingCount()) > 0
  }
}
