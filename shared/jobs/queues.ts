import { type JobsOptions, Queue } from 'bullmq'
import type { Redis } from '../io/redis.ts'

/** One row per queue: how many jobs one worker process runs at once, and what happens to a job that fails. */
export type QueueRow = { concurrency: number; job: JobsOptions; repeat?: Record<string, { everyMs: number }> }

const finished = { removeOnComplete: { count: 1_000 }, removeOnFail: { count: 5_000 } }

export const queues = {
  /** Housekeeping by the clock: each task runs on one worker at a time, however many there are. */
  maintenance: {
    concurrency: 1,
    job: { attempts: 1, ...finished },
    repeat: {
      sweep: { everyMs: 5_000 },
      reconcile: { everyMs: 10_000 },
      partitions: { everyMs: 6 * 3_600_000 },
      expire: { everyMs: 3_600_000 },
    },
  },
} as const satisfies Record<string, QueueRow>
export type QueueName = keyof typeof queues
export type MaintenanceTask = keyof (typeof queues)['maintenance']['repeat']

/** Opens a queue to add to. Close it when done. */
export function openQueue(name: QueueName, connection: Redis): Queue {
  return new Queue(name, { connection, defaultJobOptions: queues[name].job })
}

const overdueMs = 10_000

/**
 * Makes sure that the repeating jobs of a queue exist, once however many processes say so. To be called again now and
 * then: Redis may have been wiped, or a worker may have died between a run and the scheduling of the next.
 */
export async function scheduleRepeating(queue: Queue, name: QueueName): Promise<void> {
  for (const [task, { everyMs }] of Object.entries(queues[name].repeat)) {
    const known = await queue.getJobScheduler(task)
    const alive = known?.every === everyMs && (known.next ?? 0) > Date.now() - overdueMs
    if (!alive) await queue.upsertJobScheduler(task, { every: everyMs }, { name: task })
  }
}
