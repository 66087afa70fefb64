import { type JobsOptions, Queue } from 'bullmq'
import type { RedisAddress } from '../base/redis-settings.ts'
import { systemClock } from '../base/time.ts'
import { defineScript } from '../io/lua-script.ts'
import type { Redis } from '../io/redis.ts'
import { isSharded } from '../io/redis-shards.ts'

/** One row per queue: its concurrency per worker process, and its retry and retention options. */
export type QueueRow = {
  /** `max` is WORKER_CONCURRENCY. */
  concurrency: (max: number) => number
  job: JobsOptions
  /** BullMQ's lock duration: a job whose worker does not renew its lock in this time is stalled and runs again; default 20 s. */
  lockMs?: number
  repeat?: Record<string, { everyMs: number }>
}

const kept = { removeOnComplete: { count: 100 }, removeOnFail: { count: 1_000 } }
/** For queues whose state is in a table: removes ended entries, so that the same id can be added again at any time. */
const forgotten = { removeOnComplete: true, removeOnFail: true }

export const queues = {
  /** Periodic housekeeping: each task runs on at most one worker. */
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
      rules: { everyMs: 60_000 },
      incidents: { everyMs: 5_000 },
      failures: { everyMs: 30_000 },
      endpoints: { everyMs: 5 * 60_000 },
      durations: { everyMs: 60_000 },
      partitions: { everyMs: 6 * 3_600_000 },
      expire: { everyMs: 3_600_000 },
    },
  },
  /**
   * Pending emails, and messages to operators. A queue apart from maintenance, so that a hanging mail server blocks nothing else; one
   * task does not wait for the other.
   */
  emails: {
    concurrency: () => 2,
    job: { attempts: 1, ...kept },
    repeat: { alerts: { everyMs: 15_000 }, incidents: { everyMs: 10_000 } },
  },
  /** Automatic top-ups. A separate queue: a payment provider that hangs must delay neither maintenance nor emails. */
  payments: {
    concurrency: () => 1,
    job: { attempts: 1, ...kept },
    repeat: { top_ups: { everyMs: 15_000 } },
  },
  /** Steps of media jobs: `start`, `finish` and `cancel`, each with the id of its job. */
  media: {
    concurrency: max => max,
    job: { attempts: 8, backoff: { type: 'exponential', delay: 1_000, jitter: 0.5 }, ...forgotten },
  },
  /** Delayed jobs. Each entry runs the job with the earliest deadline. */
  async: {
    concurrency: max => max,
    job: { attempts: 8, backoff: { type: 'exponential', delay: 1_000, jitter: 0.5 }, ...forgotten },
  },
  /** Batches by id. A running batch occupies its slot until it ends and bounds its own concurrency. */
  batches: {
    concurrency: max => Math.max(2, Math.ceil(max / 12)),
    // An early takeover is safe: writes of the previous owner are rejected.
    lockMs: 6_000,
    job: { attempts: 5, backoff: { type: 'fixed', delay: 1_000 }, ...forgotten },
  },
  /** Webhook deliveries by id. They mostly wait for the receivers, so many run at once; the row has the time of the next retry. */
  webhooks: {
    concurrency: max => 4 * max,
    job: { attempts: 5, backoff: { type: 'exponential', delay: 1_000, jitter: 0.5 }, ...forgotten },
  },
} as const satisfies Record<string, QueueRow>
export type QueueName = keyof typeof queues
export type MaintenanceTask = keyof (typeof queues)['maintenance']['repeat']

/** The address for the connections of queues: BullMQ adds the prefix itself, and refuses a connection that does. */
export function queueAddress<Address extends RedisAddress>(address: Address): Address {
  return { ...address, redisKeyPrefix: '' }
}

/** BullMQ's prefix of a queue, whose keys are used together: in a Redis Cluster each queue has a slot of its own. */
export function queuePrefix(name: QueueName, address: Partial<RedisAddress>): string {
  const { redisKeyPrefix = '' } = address
  return redisKeyPrefix + (isSharded(address) ? `{bull-${name}}` : 'bull')
}

/**
 * Opens a queue for adding jobs, on a connection without a key prefix (`queueAddress`). Close it when done. Skips BullMQ's Redis version check: BullMQ caches a failure of that
 * query for the lifetime of the process and adds no jobs afterwards.
 */
export function openQueue(name: QueueName, connection: Redis, address: Partial<RedisAddress> = {}): Queue {
  const prefix = queuePrefix(name, address)
  return new Queue(name, { connection, prefix, defaultJobOptions: queues[name].job, skipVersionCheck: true })
}

export type Queues = Record<QueueName, Queue>

/** Opens every queue for adding jobs. Close them when done. */
export function openQueues(connection: Redis, address: Partial<RedisAddress> = {}): Queues {
  const names = Object.keys(queues) as QueueName[]
  return Object.fromEntries(names.map(name => [name, openQueue(name, connection, address)])) as Queues
}

export const defaultLockMs = 20_000
/** Longer than BullMQ keeps a lock of any queue without renewing it, in this release or another. */
const maxLockMs = 60_000
const maxActive = 10_000

const shortenLocks = defineScript({
  name: 'shorten-locks',
  // BullMQ derives the keys of locks in the same way.
  lua: `
    local shortened = 0
    local function shorten(key, kept_ms)
      if redis.call('PTTL', key) > max_lock_ms then shortened = shortened + redis.call('PEXPIRE', key, kept_ms) end
    end
    shorten(stalled_check_key, 0)
    -- A worker that is alive renews its lock meanwhile.
    for _, id in ipairs(redis.call('LRANGE', active_key, 0, max_active - 1)) do shorten(job_prefix .. id .. ':lock', lock_ms) end
    return shortened`,
  keys: ['stalledCheckKey', 'activeKey'],
  args: { jobPrefix: 'text', lockMs: 'number', maxLockMs: 'number', maxActive: 'number' },
})

/**
 * Shortens the locks of a queue that would last longer than BullMQ sets them, because the clock of Redis was set back: until then no
 * worker would look for entries that have lost theirs. Returns how many. Call it periodically, outside the queues. Throws what Redis
 * throws.
 */
export async function shortenOverlongLocks(
  connection: Redis,
  name: QueueName,
  address: Partial<RedisAddress> = {},
): Promise<number> {
  const jobPrefix = `${queuePrefix(name, address)}:${name}:`
  const keys = { stalledCheckKey: `${jobPrefix}stalled-check`, activeKey: `${jobPrefix}active` }
  const { lockMs = defaultLockMs }: QueueRow = queues[name]
  return Number(await shortenLocks(connection, { ...keys, jobPrefix, lockMs, maxLockMs, maxActive }))
}

const overdueMs = 10_000
/** The clocks of two workers that schedule differ by at most this (shared/io/clock-skew.ts). */
const maxAheadMs = 60_000

/**
 * Creates the repeating jobs of a queue where they are missing; idempotent across processes. Call it periodically: Redis may
 * have been wiped, a worker may have died between a run and the scheduling of the next, or its clock may have been ahead.
 */
export async function scheduleRepeating(queue: Queue, name: QueueName): Promise<void> {
  const { repeat = {} }: QueueRow = queues[name]
  for (const [task, { everyMs }] of Object.entries(repeat)) {
    const scheduler = await queue.getJobScheduler(task)
    const dueInMs = (scheduler?.next ?? 0) - systemClock.now()
    const isTooLate = dueInMs >= everyMs + maxAheadMs
    const isScheduled = scheduler?.every === everyMs && dueInMs > -overdueMs && !isTooLate
    // BullMQ keeps the next time of a scheduler that exists.
    if (isTooLate) await queue.removeJobScheduler(task)
    if (!isScheduled) await queue.upsertJobScheduler(task, { every: everyMs }, { name: task })
  }
}
