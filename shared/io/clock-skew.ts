import { type Clock, systemClock } from '../base/time.ts'
import type { Database } from './db.ts'
import type { Logger } from './log.ts'
import { primariesOf, type Redis } from './redis.ts'

/** A process whose wall clock is further off neither deletes nor schedules anything until it is right. */
const maxSkewMs = 30_000
/** The dates of a process whose wall clock is further off are those of the stores: more than a measurement is uncertain by. */
const maxErrorMs = 1_000
const measureEveryMs = 10_000
const checkEveryMs = 1_000

/**
 * How far the wall clock of this process is ahead of another's, in milliseconds, negative if behind; what was known of it
 * before, within what the round trip of reading it leaves open.
 */
export async function measureSkew(
  readTheirMs: () => Promise<number>,
  clock: Clock = systemClock,
  knownMs = 0,
): Promise<number> {
  const sentMs = clock.now()
  const theirMs = await readTheirMs()
  const receivedMs = clock.now()
  return Math.round(Math.min(Math.max(knownMs, sentMs - theirMs), receivedMs - theirMs))
}

/** The time of PostgreSQL's clock. */
export async function readDatabaseMs(db: Database): Promise<number> {
  const [row] = await db.$queryRaw<[{ ms: number }]>`
    SELECT extract(epoch FROM clock_timestamp())::float8 * 1000 AS ms`
  return row.ms
}

/** The time of a Redis server's clock. */
export async function readRedisMs(server: Pick<Redis, 'time'>): Promise<number> {
  const [seconds, micros] = await server.time()
  return Number(seconds) * 1_000 + Number(micros) / 1_000
}

/**
 * The clock of a process, for dates. Compares the wall clock with those of PostgreSQL and Redis every ten seconds, and with
 * the monotonic clock at each reading, so that a step is noticed at once. The clock of one store may be wrong: this process'
 * clock is wrong if it agrees with neither, and then the time is that of the nearer store.
 */
export class ClockSkew implements Clock {
  readonly #stores: readonly (() => Promise<number>)[]
  readonly #log: Logger
  readonly #wall: Clock
  readonly #onChange = new Set<(isBounded: boolean) => void>()
  /** What the clock of each store is ahead of the monotonic clock of this process; null = not read yet. */
  readonly #storeOffsetsMs: (number | null)[]
  /** What the wall clock was ahead of it at the last measurement. */
  #measuredOffsetMs: number
  /** The wall clock's time when it was last found to be right. */
  #rightAtMs = Number.NaN
  #wasBounded = true
  #timers: NodeJS.Timeout[] = []
  #measuring: Promise<void> | null = null

  constructor({ db, redis, log, wall = systemClock }: { db: Database; redis: Redis; log: Logger; wall?: Clock }) {
    this.#stores = [() => readDatabaseMs(db), () => readRedisMs(primariesOf(redis)[0]!)]
    this.#storeOffsetsMs = this.#stores.map(() => null)
    this.#log = log
    this.#wall = wall
    this.#measuredOffsetMs = this.#offsetMs()
  }

  /** Measures now, and regularly until `close`. Never rejects. */
  async start(): Promise<void> {
    await this.measure()
    this.#timers = [
      setInterval(() => void this.measure(), measureEveryMs).unref(),
      setInterval(() => this.check(), checkEveryMs).unref(),
    ]
  }

  close(): void {
    for (const timer of this.#timers) clearInterval(timer)
  }

  /** The time: that of the wall clock while it is right, that of the stores while it is not. */
  now(): number {
    const wallMs = this.#wall.now()
    // Within a second of a right reading it is right: a step is longer than that, or backwards. Read many times a request.
    if (wallMs >= this.#rightAtMs && wallMs < this.#rightAtMs + maxErrorMs) return wallMs
    const skewMs = this.#skewAt(wallMs - performance.now())
    if (Math.abs(skewMs) > maxErrorMs) return Math.round(wallMs - skewMs)
    this.#rightAtMs = wallMs
    return wallMs
  }

  /** By how many milliseconds the wall clock is ahead, negative if behind. */
  get skewMs(): number {
    return Math.round(this.#skewAt(this.#offsetMs()))
  }

  /** Whether the wall clock may be trusted to delete and to schedule. */
  get isBounded(): boolean {
    return Math.abs(this.skewMs) <= maxSkewMs
  }

  /** Calls `listener` when the clock goes out of its bound and when it is right again. */
  onChange(listener: (isBounded: boolean) => void): void {
    this.#onChange.add(listener)
  }

  /** Compares the clock with the stores' now. A store that is away keeps what was measured before. Never rejects. */
  measure(): Promise<void> {
    return (this.#measuring ??= this.#measure().finally(() => {
      this.#measuring = null
    }))
  }

  async #measure(): Promise<void> {
    const offsetMs = this.#offsetMs()
    // Does not step: a step of the wall clock meanwhile is found by the next reading.
    const steady = { now: () => performance.now() + offsetMs }
    const measureStore = async (readMs: () => Promise<number>, store: number) => {
      const knownMs = offsetMs - (this.#storeOffsetsMs[store] ?? offsetMs)
      this.#storeOffsetsMs[store] = offsetMs - (await measureSkew(readMs, steady, knownMs))
    }
    await Promise.allSettled(this.#stores.map(measureStore))
    this.#measuredOffsetMs = offsetMs
    this.#rightAtMs = Number.NaN
    this.check()
  }

  /** As `isBounded`; calls the listeners if that has changed. */
  check(): boolean {
    // The wall clock was set, or the machine was suspended and has the right time.
    if (Math.abs(this.#offsetMs() - this.#measuredOffsetMs) > maxErrorMs) void this.measure()
    const { isBounded, skewMs } = this
    if (isBounded === this.#wasBounded) return isBounded
    this.#wasBounded = isBounded
    if (isBounded) this.#log.warn({ skewMs }, 'the clock of this machine is right again')
    else
      this.#log.error(
        { skewMs },
        'the clock of this machine is wrong: nothing is deleted or scheduled until it is right',
      )
    for (const listener of this.#onChange) listener(isBounded)
    return isBounded
  }

  /** What the wall clock is ahead of the nearer store, given what it is ahead of the monotonic clock. */
  #skewAt(offsetMs: number): number {
    let nearestMs: number | null = null
    for (const storeMs of this.#storeOffsetsMs) {
      if (storeMs === null) continue
      const skewMs = offsetMs - storeMs
      if (nearestMs === null || Math.abs(skewMs) < Math.abs(nearestMs)) nearestMs = skewMs
    }
    return nearestMs ?? 0
  }

  #offsetMs(): number {
    return this.#wall.now() - performance.now()
  }
}
