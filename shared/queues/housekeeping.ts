import type { Redis } from '../io/redis.ts'
import { type QueueName, type QueueRow, queues } from './queues.ts'

/** Hash of the times at which each task last completed, in Unix milliseconds. */
const runsKey = 'housekeeping'
/** Its field that says since when completed runs have been recorded. */
const sinceField = 'since'
const maxMissedRuns = 3
/** Workers that are replaced run nothing for a while. */
const minOverdueMs = 2 * 60_000

/** A task of housekeeping: one that is repeated. */
export type TaskRun = {
  task: string
  everyMs: number
  /** When it last completed; null = not since runs have been recorded. */
  lastMs: number | null
  /** Since when runs have been recorded; null = they are not. */
  recordedSinceMs: number | null
}

/** The name of a repeated task among all queues. */
function nameOf(queue: QueueName, task: string): string {
  return queue === 'maintenance' ? task : `${queue}:${task}`
}

/** Records that a queue's entry was completed, if it is of a task that is repeated. */
export async function recordRun(redis: Redis, queue: QueueName, task: string, nowMs: number): Promise<void> {
  const { repeat = {} }: QueueRow = queues[queue]
  if (Object.hasOwn(repeat, task)) await redis.hset(runsKey, nameOf(queue, task), nowMs)
}

/** Records since when runs have been recorded, unless that is known: a task that never runs is overdue from then on. */
export async function beginRecord(redis: Redis, nowMs: number): Promise<void> {
  await redis.hsetnx(runsKey, sinceField, nowMs)
}

/** When each repeated task last completed. Workers record it in Redis, so that every process can tell, also with no worker left. */
export async function readRuns(redis: Redis): Promise<TaskRun[]> {
  const { [sinceField]: since, ...times } = await redis.hgetall(runsKey)
  const recordedSinceMs = since === undefined ? null : Number(since)
  return Object.entries(queues).flatMap(([queue, { repeat = {} }]: [string, QueueRow]) =>
    Object.entries(repeat).map(([name, { everyMs }]) => {
      const task = nameOf(queue as QueueName, name)
      return { task, everyMs, lastMs: task in times ? Number(times[task]) : null, recordedSinceMs }
    }),
  )
}

/** Whether a task has not completed for three of its intervals, and for two minutes at least. */
export function isOverdue({ everyMs, lastMs, recordedSinceMs }: TaskRun, nowMs: number): boolean {
  const fromMs = lastMs ?? recordedSinceMs
  // A run in the future was recorded while the clocks were wrong.
  return fromMs !== null && Math.abs(nowMs - fromMs) > Math.max(maxMissedRuns * everyMs, minOverdueMs)
}
