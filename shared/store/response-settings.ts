import type { Clock } from '../base/time.ts'
import type { Database } from '../io/db.ts'

/** Whether an organisation's responses are stored, and for how many days. */
export type ResponseSettings = { keeps: boolean; retentionDays: number }

/** How long a process may act on the settings that it has read, for requests that do not ask for storage. */
const maxAgeMs = 30_000
const maxCached = 10_000

/** The storage settings of organisations, cached for requests that leave the choice to them. */
export class ResponseSettingsReader {
  readonly #db: Database
  readonly #clock: Clock
  readonly #maxDays: number
  readonly #cached = new Map<string, { keeps: boolean; readAtMs: number }>()

  constructor({ db, clock, maxDays }: { db: Database; clock: Clock; maxDays: number }) {
    this.#db = db
    this.#clock = clock
    this.#maxDays = maxDays
  }

  /** Whether responses are stored, as read in the last 30 seconds; undefined if it is not cached. */
  cached(organisationId: string): boolean | undefined {
    const found = this.#cached.get(organisationId)
    return found && this.#clock.now() - found.readAtMs < maxAgeMs ? found.keeps : undefined
  }

  /** Reads the settings from PostgreSQL. */
  async read(organisationId: string): Promise<ResponseSettings> {
    const row = await this.#db.organisation.findUnique({
      where: { id: organisationId },
      select: { keepResponses: true, responseRetentionDays: true },
    })
    const keeps = row?.keepResponses ?? false
    if (this.#cached.size >= maxCached) this.#cached.clear()
    this.#cached.set(organisationId, { keeps, readAtMs: this.#clock.now() })
    return { keeps, retentionDays: Math.min(row?.responseRetentionDays ?? this.#maxDays, this.#maxDays) }
  }
}
