import { defineScript } from '../io/lua-script.ts'
import type { Redis } from '../io/redis.ts'

/**
 * Most providers of media jobs must be polled until the work is done: every few seconds, for minutes. Ten thousand
 * jobs in flight are some two thousand polls a second, and a waiting job must hold no worker slot.
 *
 * Waiting jobs are members of one sorted set in Redis, scored by the time of their next poll (`PollSchedule`). Every
 * worker claims due jobs, up to 100 in one command, reads their rows in one statement, polls the providers over
 * keep-alive connections, and writes the next times back in one command and the progress in one statement
 * (`workers/poll-loop.ts`). A claim is a lease of 20 seconds, renewed during the poll: a job whose worker dies is due
 * again when it expires. Poll results are kept in memory until written, so that a short store outage delays a job by
 * the outage alone. A provider's verified callback only sets a job's time to now; the state itself is always polled.
 * BullMQ's queue has the steps with an effect: start, import the results, stop.
 *
 * Polls begin at the provider's own interval and back off with the age of the job (a tenth of it, up to the
 * provider's longest interval, ±10 %). Where the provider sends callbacks, they are half a minute apart.
 *
 * Why not a delayed BullMQ job per poll. It was measured, without any provider (10,000 jobs, a poll every 5 s each,
 * one core): re-delayed jobs reached 188 polls a second at 150 µs of worker and 190 µs of Redis each; the sorted set
 * did all 2,000 at 6 µs and 4 µs.
 *
 * `node bench/polls.ts` measures it with everything on (bench/README.md). The set holds ids only and can be lost:
 * housekeeping reinserts every running job within half a minute. Polls are ordered by time, so a slow provider uses
 * connections (at most 500 in a worker), not slots; further workers share the same set.
 */

const key = 'jobs:watch'
/** Lease of a claimed job, renewable. After a worker dies, its jobs are polled again once this has passed. */
const leaseMs = 20_000

/** Poll times are whole milliseconds and lease ends are not, which distinguishes an expired lease from a due poll. */
const leaseMark = 0.5

function leaseFrom(nowMs: number): number {
  return Math.round(nowMs) + leaseMs + leaseMark
}

export type Due = { id: string; dueMs: number }
/** `lost` are jobs whose lease expired: their last poll did not finish. */
type Claimed = { leasedUntilMs: number; due: Due[]; lost: string[] }

/** Returns due members (member, due time, …) and leases them, so that they become due again after a crash. */
const claimPolls = defineScript({
  name: 'claim-polls',
  lua: `
    local due = redis.call('ZRANGEBYSCORE', schedule_key, '-inf', now_ms, 'WITHSCORES', 'LIMIT', 0, count)
    for i = 1, #due, 2 do redis.call('ZADD', schedule_key, leased_until_ms, due[i]) end
    return due`,
  fixedKeys: { scheduleKey: key },
  args: { nowMs: 'text', leasedUntilMs: 'text', count: 'number' },
})
/** Compare-and-set of the next poll of members that still have this lease; a member that was woken since keeps its earlier time. */
const putPolls = defineScript({
  name: 'put-polls',
  lua: `
    for _, poll in ipairs(polls) do
      if redis.call('ZSCORE', schedule_key, poll.id) == leased_until_ms then
        redis.call('ZADD', schedule_key, poll.due_ms, poll.id)
      end
    end
    return 0`,
  fixedKeys: { scheduleKey: key },
  args: { leasedUntilMs: 'text', polls: { id: 'text', dueMs: 'text' } },
})

/**
 * The jobs that wait for their provider: one sorted set by the time of the next poll. A waiting job occupies no worker
 * and no timer; one command claims hundreds of due jobs.
 */
export class PollSchedule {
  readonly #redis: Redis

  constructor(redis: Redis) {
    this.#redis = redis
  }

  /** Schedules the first poll of jobs. Jobs that are scheduled already are left unchanged. */
  async add(ids: readonly string[], dueMs: number): Promise<void> {
    if (ids.length > 0) await this.#redis.zadd(key, 'NX', ...ids.flatMap(id => [Math.round(dueMs), id]))
  }

  /** Makes a scheduled job due now; does nothing for other jobs. */
  async wake(id: string, nowMs: number): Promise<void> {
    await this.#redis.zadd(key, 'XX', 'LT', Math.round(nowMs), id)
  }

  async remove(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#redis.zrem(key, ...ids)
  }

  /** Claims at most `count` due jobs, the longest overdue first. */
  async claim(nowMs: number, count: number): Promise<Claimed> {
    const leasedUntilMs = leaseFrom(nowMs)
    const flat = (await claimPolls(this.#redis, { nowMs, leasedUntilMs, count })) as string[]
    const due = Array.from({ length: flat.length / 2 }, (_, i) => ({
      id: flat[2 * i]!,
      dueMs: Number(flat[2 * i + 1]),
    }))
    const lost = due.filter(({ dueMs }) => !Number.isInteger(dueMs)).map(({ id }) => id)
    return { leasedUntilMs, due, lost }
  }

  /** Sets the next polls of claimed jobs. */
  async put(leasedUntilMs: number, next: readonly Due[]): Promise<void> {
    const polls = next.map(({ id, dueMs }) => ({ id, dueMs: Math.round(dueMs) }))
    if (next.length > 0) await putPolls(this.#redis, { leasedUntilMs, polls })
  }

  /** Renews the leases of claimed jobs whose polls are in progress. Returns the end of the new lease, in milliseconds. */
  async renew(leasedUntilMs: number, ids: readonly string[], nowMs: number): Promise<number> {
    const renewedUntilMs = leaseFrom(nowMs)
    const polls = ids.map(id => ({ id, dueMs: renewedUntilMs }))
    if (ids.length > 0) await putPolls(this.#redis, { leasedUntilMs, polls })
    return renewedUntilMs
  }
}
