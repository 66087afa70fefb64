import type { Queue } from 'bullmq'
import { elapsedMs, longAgo, type MonotonicMs } from '../base/time.ts'

/** Longer than the delay after which a refused batch is retried. */
const refusedForMs = 5_000

/** The queue that wakes workers for batches: one entry per unfinished batch. */
export class BatchWakes {
  readonly #queue: Queue
  #refusedAtMs = longAgo

  constructor(queue: Queue) {
    this.#queue = queue
  }

  /** Queues batches. Entries that are queued or running already are left unchanged. */
  async add(...ids: string[]): Promise<void> {
    await this.#queue.addBulk(ids.map(id => ({ name: 'visit', data: { batchId: id }, opts: { jobId: id } })))
  }

  /** Runs a batch now instead of after its current delay. */
  async promote(id: string): Promise<void> {
    await this.add(id)
    const entry = await this.#queue.getJob(id)
    if (await entry?.isDelayed()) await entry!.promote()
  }

  /** Notes that this process had no room for a batch: it counts as waiting, although it is retried after a delay. */
  noteRefusal(nowMs: MonotonicMs): void {
    this.#refusedAtMs = nowMs
  }

  /** Whether any batch waits for a worker. */
  async hasWaiting(nowMs: MonotonicMs): Promise<boolean> {
    return elapsedMs(this.#refusedAtMs, nowMs) < refusedForMs || (await this.#queue.getWaitingCount()) > 0
  }
}
