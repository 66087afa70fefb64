import { type Clock, dayMs } from '../base/time.ts'
import type { Connection, Database } from '../io/db.ts'
import type { Logger } from '../io/log.ts'
import { channelName, openSubscriber, type Redis } from '../io/redis.ts'

const channel = 'providers:paused'
/** A lost message delays a change by this much. */
const refreshMs = 10_000
/** The cooldown of a paused provider, which has no known end: longer than any that a provider requests. */
export const pausedCooldownMs = dayMs

/** `pausedUntil` null = until an operator resumes it. */
export type ProviderPause = {
  provider: string
  reason: string | null
  pausedBy: string
  pausedAt: Date
  pausedUntil: Date | null
}

/**
 * The providers that an operator has paused: they get no new calls, and calls and jobs under way finish. A pause lasts until its
 * time, or until it is resumed. PostgreSQL has them,
 * and each process a copy, which is read again after each change and every ten seconds. While PostgreSQL is away, the copy stays
 * in force; a process that starts then assumes that nothing is paused until it can read.
 *
 * A paused provider is in cooldown without an end (`Upstreams.figures`), because everything that calls providers respects
 * cooldowns: routing, failover, jobs, lines of batches, sessions. A request that only paused providers could serve is a 503 with
 * `Retry-After: 60`; running jobs are polled and batches at the provider collected, so a drain mode would do the same.
 */
export class ProviderPauses {
  readonly #db: Database
  readonly #redis: Redis
  readonly #clock: Clock
  readonly #log: Logger
  /** The paused providers, and until when; null = until resumed. */
  #paused: ReadonlyMap<string, number | null> = new Map()
  /** Whether there are any. */
  any = false
  #revision = 0
  #subscriber: Redis | null = null
  #timer: NodeJS.Timeout | null = null

  constructor({ db, redis, clock, log }: { db: Database; redis: Redis; clock: Clock; log: Logger }) {
    this.#db = db
    this.#redis = redis
    this.#clock = clock
    this.#log = log
  }

  /** Reads the pauses and keeps them up to date until `close`. Never rejects. */
  async start(): Promise<void> {
    this.#subscriber = openSubscriber(this.#redis, channel, () => void this.refresh())
    this.#timer = setInterval(() => void this.refresh(), refreshMs)
    this.#timer.unref()
    await this.refresh()
  }

  close(): void {
    this.#subscriber?.disconnect()
    if (this.#timer) clearInterval(this.#timer)
  }

  /** Changes whenever the pauses are read. */
  get revision(): number {
    return this.#revision
  }

  isPaused(provider: string): boolean {
    const untilMs = this.#paused.get(provider)
    return untilMs === null || (untilMs !== undefined && untilMs > this.#clock.now())
  }

  /** Reads the pauses again. Never rejects. */
  async refresh(): Promise<void> {
    await this.#read().catch(error => this.#log.warn({ err: error }, 'cannot read which providers are paused'))
  }

  /** The pauses that last. */
  list(): Promise<ProviderPause[]> {
    const now = new Date(this.#clock.now())
    return this.#db.providerPause.findMany({ where: { OR: [{ pausedUntil: null }, { pausedUntil: { gt: now } }] } })
  }

  /** Removes the pauses that have ended by themselves, which processes of a previous release would keep. */
  async expire(): Promise<void> {
    await this.#db.providerPause.deleteMany({ where: this.#ended() })
  }

  #ended() {
    return { pausedUntil: { lte: new Date(this.#clock.now()) } }
  }

  /**
   * Pauses a provider, with what `beside` writes in the same transaction, on all processes. False if it was paused already.
   */
  pause(
    provider: string,
    { reason, by, until = null }: { reason: string | null; by: string; until?: Date | null },
    beside: (tx: Connection) => Promise<unknown>,
  ): Promise<boolean> {
    const row = { provider, reason, pausedBy: by, pausedAt: new Date(this.#clock.now()), pausedUntil: until }
    const write = async (tx: Connection) => {
      await tx.providerPause.deleteMany({ where: { provider, ...this.#ended() } })
      return tx.providerPause.createMany({ data: [row], skipDuplicates: true })
    }
    return this.#change(write, beside)
  }

  /** Ends the pause of a provider, on all processes. False if it was not paused. */
  resume(provider: string, beside: (tx: Connection) => Promise<unknown>): Promise<boolean> {
    return this.#change(tx => tx.providerPause.deleteMany({ where: { provider } }), beside)
  }

  async #change(
    write: (tx: Connection) => Promise<{ count: number }>,
    beside: (tx: Connection) => Promise<unknown>,
  ): Promise<boolean> {
    const changed = await this.#db.$transaction(async tx => {
      const { count } = await write(tx)
      if (count > 0) await beside(tx)
      return count > 0
    })
    await this.#read()
    await this.#redis
      .publish(channelName(this.#redis, channel), '')
      .catch(error => this.#log.warn({ err: error }, 'other processes learn of a provider’s pause later'))
    return changed
  }

  async #read(): Promise<void> {
    const rows = await this.#db.providerPause.findMany({ select: { provider: true, pausedUntil: true } })
    this.#revision++
    this.#paused = new Map(rows.map(({ provider, pausedUntil }) => [provider, pausedUntil?.getTime() ?? null]))
    this.any = rows.length > 0
  }
}
