import { type Clock, dayMs } from '../base/time.ts'
import type { Connection, Database } from '../io/db.ts'
import type { Logger } from '../io/log.ts'
import type { Target } from './contract.ts'

/** Without another excess for this long, a factor is forgotten. */
export const factorMemoryMs = dayMs
/** By how much the reservations of an organisation grow: by its own requests, and by those of others. */
const maxFactor = 10
const maxFactorOfOthers = 2
/** Requests that started earlier after a factor was learned may have reserved without it. */
const spreadSeconds = 60
const refreshMs = 5_000
const maxRows = 10_000

/** Reservations of a model at a provider that were exceeded, by any organisation. */
type ExceededTarget = { provider: string; model: string; exceeded: number; worst: number; since: Date }

type LearnedFactors = { own: Map<string, number>; others: number }

/**
 * By what the maximum cost of requests is multiplied, by model and provider, because earlier ones cost more than was reserved
 * for them. PostgreSQL has the factors, and each process a copy, which is read again every five seconds.
 * docs/decisions/money-reservation-bounds.md
 */
export class ReservationFactors {
  readonly #db: Database
  readonly #clock: Clock
  readonly #log: Logger
  #learned: ReadonlyMap<string, LearnedFactors> = new Map()
  /** Whether there are any: most of the time there are none. */
  any = false
  #timer: NodeJS.Timeout | null = null

  constructor({ db, clock, log }: { db: Database; clock: Clock; log: Logger }) {
    this.#db = db
    this.#clock = clock
    this.#log = log
  }

  /** Reads the factors and keeps them up to date until `close`. Never rejects. */
  async start(): Promise<void> {
    this.#timer = setInterval(() => void this.refresh(), refreshMs)
    this.#timer.unref()
    await this.refresh()
  }

  close(): void {
    if (this.#timer) clearInterval(this.#timer)
  }

  /** The factor of a request that may be sent to any of `targets`. At least 1; from memory. */
  of(organisationId: string, targets: readonly Target[]): number {
    let factor = 1
    for (const { provider, model } of targets) {
      const learned = this.#learned.get(nameOf(provider.name, model.id))
      if (learned) factor = Math.max(factor, learned.others, learned.own.get(organisationId) ?? 1)
    }
    return factor
  }

  /** Reads the factors again. Never rejects. */
  async refresh(): Promise<void> {
    await this.#read().catch(error => this.#log.warn({ err: error }, 'cannot read the factors of reservations'))
  }

  /** What is exceeded now, for the operators. Throws what PostgreSQL throws. */
  list(): Promise<ExceededTarget[]> {
    return this.#db.$queryRaw<ExceededTarget[]>`
      SELECT provider, model, sum(exceeded)::float8 AS exceeded, max(worst) AS worst, min(since) AS since
      FROM reservation_factors WHERE last_at > ${this.#forgottenAt()} GROUP BY provider, model ORDER BY 1, 2`
  }

  /**
   * Learns from entries of the ledger for costs above reservations, in the transaction that marks them as handled. The factor of
   * a request that had reserved with a factor is the product of both.
   */
  async learn(tx: Connection, causes: readonly string[]): Promise<void> {
    const now = new Date(this.#clock.now())
    const forgotten = this.#forgottenAt()
    // One after another: each takes the factors of the one before into account.
    await tx.$executeRaw`LOCK TABLE reservation_factors IN SHARE ROW EXCLUSIVE MODE`
    await tx.$executeRaw`
      INSERT INTO reservation_factors AS f
        (provider, model, organisation_id, factor, factor_since, exceeded, worst, since, last_at)
      SELECT provider, model, organisation_id, least(ceil(max(needed) * 100) / 100, ${maxFactor}::float8), ${now}, count(*), max(needed),
        ${now}, ${now}
      FROM (
        SELECT g.provider, g.model, e.organisation_id, coalesce(applied.factor, 1)
          * least(1 + e.amount_nano / greatest(-coalesce(c.amount_nano, 0), 1)::float8, 1000) AS needed
        FROM excesses e
        CROSS JOIN LATERAL (
          SELECT provider, model, created_at, coalesce(routing ? 'batch', false) AS in_batch FROM generations
          WHERE id = split_part(e.cause, ':', 2) AND provider IS NOT NULL
            AND created_at BETWEEN e.created_at - interval '2 days' AND e.created_at + interval '1 day' LIMIT 1) g
        LEFT JOIN ledger_entries c ON c.cause = 'generation:' || split_part(e.cause, ':', 2)
          || CASE WHEN e.cause LIKE 'excess:%:%' THEN ':' || split_part(e.cause, ':', 3) ELSE '' END
        LEFT JOIN LATERAL (
          SELECT max(least(r.factor, CASE WHEN r.organisation_id = e.organisation_id THEN ${maxFactor}::float8
            ELSE ${maxFactorOfOthers}::float8 END)) AS factor
          FROM reservation_factors r
          WHERE r.provider = g.provider AND r.model = g.model AND r.last_at > ${forgotten} AND NOT g.in_batch
            AND r.factor_since < g.created_at - make_interval(secs => ${spreadSeconds}::float8)) applied ON true
        WHERE e.cause = ANY(${[...causes]})) seen
      GROUP BY provider, model, organisation_id
      ON CONFLICT (provider, model, organisation_id) DO UPDATE SET
        factor = CASE WHEN f.last_at > ${forgotten} THEN greatest(f.factor, excluded.factor) ELSE excluded.factor END,
        factor_since = CASE WHEN f.last_at > ${forgotten} AND f.factor >= excluded.factor THEN f.factor_since
          ELSE excluded.factor_since END,
        exceeded = CASE WHEN f.last_at > ${forgotten} THEN f.exceeded ELSE 0 END + excluded.exceeded,
        worst = CASE WHEN f.last_at > ${forgotten} THEN greatest(f.worst, excluded.worst) ELSE excluded.worst END,
        since = CASE WHEN f.last_at > ${forgotten} THEN f.since ELSE excluded.since END,
        last_at = excluded.last_at`
  }

  async #read(): Promise<void> {
    const rows = await this.#db.reservationFactor.findMany({
      where: { lastAt: { gt: this.#forgottenAt() } },
      select: { organisationId: true, provider: true, model: true, factor: true },
      orderBy: { lastAt: 'desc' },
      take: maxRows,
    })
    const learned = new Map<string, LearnedFactors>()
    for (const { organisationId, provider, model, factor } of rows) {
      const name = nameOf(provider, model)
      const factors = learned.get(name) ?? { own: new Map(), others: 1 }
      learned.set(name, factors)
      factors.own.set(organisationId, factor)
      factors.others = Math.max(factors.others, Math.min(factor, maxFactorOfOthers))
    }
    this.#learned = learned
    this.any = learned.size > 0
  }

  #forgottenAt(): Date {
    return new Date(this.#clock.now() - factorMemoryMs)
  }
}

function nameOf(provider: string, model: string): string {
  return `${provider}|${model}`
}
