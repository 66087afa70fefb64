import { type Clock, systemClock } from '../base/time.ts'
import type { Database } from './db.ts'
import type { Logger } from './log.ts'
import { primariesOf, type Redis } from './redis.ts'

/** A process whose wall clock is further off neither deletes nor schedules anything until it is right. */
const maxSkewMs = 30_000
const measureEveryMs = 10_000
const checkEveryMs = 1_000

/**
 * How far the wall clock of this process is ahead of another's, in milliseconds, negative if behind; 0 within what the
 * round trip of reading it leaves open.
 */
export async function measureSkew(readTheirMs: () => Promise<number>, clock: Clock = systemClock): Promise<number> {
  const sentMs = clock.now()
  const theirMs = await readTheirMs()
  const receivedMs = clock.now()
  return Math.round(Math.max(sentMs - theirMs, 0) || Math.min(receivedMs - theirMs, 0))
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
 * Compares the wall clock of this process with those of PostgreSQL and Redis every ten seconds, and notices at once when
 * it steps. The clock of one store may be wrong: this process' clock is wrong if it agrees with neither.
 */
export class ClockSkew {
  readonly #db: Database
  readonly #redis: Redis
  readonly #log: Logger
  readonly #wall: Clock
  readonly #onChange = new Set<(isBounded: boolean) => void>()
  /** The skew of the last measurement, and the difference of the wall clock and the monotonic clock at that time. */
  #measured: { skewMs: number; offsetMs: number } | null = null
  #wasBounded = true
  #timers: NodeJS.Timeout[] = []
  #measuring: Promise<void> | null = null

  constructor({ db, redis, log, wall = systemClock }: { db: Database; redis: Redis; log: Logger; wall?: Clock }) {
    this.#db = db
    this.#redis = redis
    this.#log = log
    this.#wall = wall
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

  /** By how many milliseconds the wall clock is ahead, negative if behind. */
  get skewMs(): number {
    if (!this.#measured) return 0
    return Math.round(this.#measured.skewMs + this.#offsetMs() - this.#measured.offsetMs)
  }

  /** Whether dates of this process may be trusted to delete and to schedule. */
  get isBounded(): boolean {
    return Math.abs(this.skewMs) <= maxSkewMs
  }

  /** Calls `listener` when the clock goes out of its bound and when it is right again. */
  onChange(listener: (isBounded: boolean) => void): void {
    this.#onChange.add(listener)
  }

  /** Compares the clock with the stores' now. A store that is away is not asked. Never rejects. */
  measure(): Promise<void> {
    return (this.#measuring ??= this.#measure().finally(() => {
      this.#measuring = null
    }))
  }

  async #measure(): Promise<void> {
    const reads = [() => readDatabaseMs(this.#db), () => readRedisMs(primariesOf(this.#redis)[0]!)]
    const skews = (await Promise.allSettled(reads.map(read => measureSkew(read, this.#wall)))).flatMap(outcome =>
      outcome.status === 'fulfilled' ? [outcome.value] : [],
    )
    if (skews.length === 0) return
    const skewMs = skews.reduce((nearest, skew) => (Math.abs(skew) < Math.abs(nearest) ? skew : nearest))
    this.#measured = { skewMs, offsetMs: this.#offsetMs() }
    this.check()
  }

  /** As `isBounded`; calls the listeners if that has changed. */
  check(): boolean {
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
    // A machine that was suspended has a step between its two clocks, and the right time.
    if (!isBounded) void this.measure()
    return isBounded
  }

  #offsetMs(): number {
    return this.#wall.now() - performance.now()
  }
}
