import { defineScript } from '../io/lua-script.ts'
import type { Redis } from '../io/redis.ts'

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
export type Claimed = { leasedUntilMs: number; due: Due[]; lost: string[] }

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
 * and no timer; one command claims hundreds of due jobs (see docs/decisions/polling.md).
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
