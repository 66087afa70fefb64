import { elapsedMs, type MonotonicClock, type MonotonicMs } from '../base/time.ts'
import type { Database } from '../io/db.ts'

/** Whether an organisation's responses are stored, and for how many days. */
export type ResponseSettings = { keeps: boolean; retentionDays: number }

/** How long a process may act on the settings that it has read, for requests that do not ask for storage. */
const maxAgeMs = 30_000
const maxCached = 10_000

/** The storage settings of organisations, cached for requests that leave the choice to them. */
export class ResponseSettingsReader {
  readonly #db: Database
  readonly #monotonic: MonotonicClock
  readonly #maxDays: number
  readonly #cached = new Map<string, { keeps: boolean; readAtMs: MonotonicMs }>()

  constructor({ db, monotonic, maxDays }: { db: Database; monotonic: MonotonicClock; maxDays: number }) {
    this.#db = db
    this.#monotonic = monotonic
    this.#maxDays = maxDays
  }

  /** Whether responses are stored, as read in the last 30 seconds; undefined if it is not cached. */
  cached(organisationId: string): boolean | undefined {
    const found = this.#cached.get(organisationId)
    return found && elapsedMs(found.readAtMs, this.#monotonic.now()) < maxAgeMs ? found.keeps : undefined
  }

  /** Reads the settings from PostgreSQL. */
  async read(organisationId: string): Promise<ResponseSettings> {
    const row = await this.#db.organisation.findUnique({
      where: { id: organisationId },
      select: { keepResponses: true, responseRetentionDays: true },
    })
    const keeps = row?.keepResponses ?? false
    if (this.#cached.size >= maxCached) this.#cached.clear()
    this.#cached.set(organisationId, { keeps, readAtMs: this.#monotonic.now() })
    return { keeps, retentionDays: Math.min(row?.responseRetentionDays ?? this.#maxDays, this.#maxDays) }
  }
}
