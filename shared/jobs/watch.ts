import { readFileSync } from 'node:fs'
import type { Redis } from '../io/redis.ts'

const key = 'jobs:watch'
const script = 'headgate:watch'
/** How long a claimed job is nobody else's, unless its lease is renewed: a job whose worker died waits so long for its next look. */
const leaseMs = 20_000

/** Times of looks are whole milliseconds, ends of leases are not: so a lease that ran out is told from a look that is due. */
const leaseMark = 0.5

function leaseFrom(nowMs: number): number {
  return Math.round(nowMs) + leaseMs + leaseMark
}

export type Due = { id: string; dueMs: number }
/** `lost` are jobs whose last look never ended. */
export type Claimed = { leasedUntilMs: number; due: Due[]; lost: string[] }

/**
 * The jobs that wait for their provider: one sorted set of the times of their next looks. A waiting job holds no worker
 * and no timer; one command claims hundreds that are due (see docs/decisions/polling.md).
 */
export class Watch {
  readonly #redis: Redis

  constructor(redis: Redis) {
    this.#redis = redis
    redis.defineCommand(script, {
      numberOfKeys: 0,
      lua: readFileSync(new URL('./watch.lua', import.meta.url), 'utf8'),
    })
  }

  /** Puts jobs on the list; those that are on it already stay as they are. */
  async add(ids: readonly string[], dueMs: number): Promise<void> {
    if (ids.length > 0) await this.#redis.zadd(key, 'NX', ...ids.flatMap(id => [Math.round(dueMs), id]))
  }

  /** Has a job looked at now, if it is on the list. */
  async wake(id: string, nowMs: number): Promise<void> {
    await this.#redis.zadd(key, 'XX', 'LT', Math.round(nowMs), id)
  }

  async remove(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#redis.zrem(key, ...ids)
  }

  /** Claims at most `count` jobs that are due, the latest first. */
  async claim(nowMs: number, count: number): Promise<Claimed> {
    const leasedUntilMs = leaseFrom(nowMs)
    const flat = (await this.#call('claim', nowMs, leasedUntilMs, count)) as string[]
    const due = Array.from({ length: flat.length / 2 }, (_, i) => ({
      id: flat[2 * i]!,
      dueMs: Number(flat[2 * i + 1]),
    }))
    const lost = due.filter(({ dueMs }) => !Number.isInteger(dueMs)).map(({ id }) => id)
    return { leasedUntilMs, due, lost }
  }

  /** Sets the next looks of claimed jobs. */
  async put(leasedUntilMs: number, next: readonly Due[]): Promise<void> {
    if (next.length > 0)
      await this.#call('put', leasedUntilMs, ...next.flatMap(({ id, dueMs }) => [id, Math.round(dueMs)]))
  }

  /** Renews the leases of claimed jobs whose looks are under way. Gives the end of the new lease, in milliseconds. */
  async renew(leasedUntilMs: number, ids: readonly string[], nowMs: number): Promise<number> {
    const renewedUntilMs = leaseFrom(nowMs)
    if (ids.length > 0) await this.#call('put', leasedUntilMs, ...ids.flatMap(id => [id, renewedUntilMs]))
    return renewedUntilMs
  }

  #call(...args: (string | number)[]): Promise<unknown> {
    const commands = this.#redis as unknown as Record<string, (...args: (string | number)[]) => Promise<unknown>>
    return commands[script]!(...args)
  }
}
