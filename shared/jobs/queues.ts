import { type JobsOptions, Queue } from 'bullmq'
import type { Redis } from '../io/redis.ts'

/** One row per queue: how many jobs one worker process runs at once, and what happens to a job that fails. */
export type QueueRow = {
  /** `most` is WORKER_CONCURRENCY. */
  concurrency: (most: number) => number
  job: JobsOptions
  /** A job whose worker has not said for so long that it lives is taken up by another; 20 s where absent. */
  lockMs?: number
  repeat?: Record<string, { everyMs: number }>
}

const kept = { removeOnComplete: { count: 1_000 }, removeOnFail: { count: 5_000 } }
/** Where a table's row is the truth: nothing stays behind, so that the same id can be added again at any time. */
const forgotten = { removeOnComplete: true, removeOnFail: true }

export const queues = {
  /** Housekeeping by the clock: each task runs on one worker at a time, however many there are. */
  maintenance: {
    concurrency: () => 1,
    job: { attempts: 1, ...kept },
    repeat: {
      sweep: { everyMs: 5_000 },
      reconcile: { everyMs: 10_000 },
      jobs: { everyMs: 5_000 },
      requeue: { everyMs: 30_000 },
      webhooks: { everyMs: 15_000 },
      alerts: { everyMs: 15_000 },
      partitions: { everyMs: 6 * 3_600_000 },
      expire: { everyMs: 3_600_000 },
    },
  },
  /** Emails that are owed. They are no housekeeping: a mail server that hangs must hold up nothing else. */
  emails: {
    concurrency: () => 1,
    job: { attempts: 1, ...kept },
    repeat: { alerts: { everyMs: 15_000 } },
  },
  /** Steps of slow work: `start`, `finish` and `cancel`, each with the id of its job. */
  media: {
    concurrency: most => most,
    job: { attempts: 8, backoff: { type: 'exponential', delay: 1_000, jitter: 0.5 }, ...forgotten },
  },
  /** Delayed jobs. Each entry is a turn for whichever of them must be done first. */
  async: {
    concurrency: most => most,
    job: { attempts: 8, backoff: { type: 'exponential', delay: 1_000, jitter: 0.5 }, ...forgotten },
  },
  /** Batches by id. One that runs keeps its place until it is over; how much it does at once is its own affair. */
  batches: {
    concurrency: most => Math.max(2, Math.ceil(most / 12)),
    // Taken over too early, a batch is still safe: its first owner can write no more.
    lockMs: 6_000,
    job: { attempts: 5, backoff: { type: 'fixed', delay: 1_000 }, ...forgotten },
  },
  /** Deliveries by id. They wait for strangers most of the time, so many run at once; the row says when to try again. */
  webhooks: {
    concurrency: most => 4 * most,
    job: { attempts: 5, backoff: { type: 'exponential', delay: 1_000, jitter: 0.5 }, ...forgotten },
  },
} as const satisfies Record<string, QueueRow>
export type QueueName = keyof typeof queues
export type MaintenanceTask = keyof (typeof queues)['maintenance']['repeat']

/**
 * Opens a queue to add to. Close it when done. The version of Redis is not asked for: BullMQ would keep a failure of that one
 * question for as long as the process lives and add nothing any more.
 */
export function openQueue(name: QueueName, connection: Redis): Queue {
  return new Queue(name, { connection, defaultJobOptions: queues[name].job, skipVersionCheck: true })
}

export type Queues = Record<QueueName, Queue>

/** Opens every queue to add to. Close them when done. */
export function openQueues(connection: Redis): Queues {
  const names = Object.keys(queues) as QueueName[]
  return Object.fromEntries(names.map(name => [name, openQueue(name, connection)])) as Queues
}

const overdueMs = 10_000

/**
 * Makes sure that the repeating jobs of a queue exist, once however many processes say so. To be called again now and
 * then: Redis may have been wiped, or a worker may have died between a run and the scheduling of the next.
 */
export async function scheduleRepeating(queue: Queue, name: QueueName): Promise<void> {
  const { repeat = {} }: QueueRow = queues[name]
  for (const [task, { everyMs }] of Object.entries(repeat)) {
    const known = await queue.getJobScheduler(task)
    const alive = known?.every === everyMs && (known.next ?? 0) > Date.now() - overdueMs
    if (!alive) await queue.upsertJobScheduler(task, { every: everyMs }, { name: task })
  }
}
