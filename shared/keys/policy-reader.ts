import type { Pool } from 'pg'
import { type Clock, monthOf } from '../base/time.ts'
import type { MonthSpend, PolicyRow } from './policy.ts'

/** A key's row with what was spent in a month, as the admission script installs it where Redis has nothing. */
type ReadPolicy = { row: PolicyRow; spend: MonthSpend }

type Waiting = { hash: string; resolve(read: ReadPolicy | null): void; reject(error: unknown): void }

const maxPerStatement = 256

/**
 * One statement: an ORM would spend most of the time of a cold key. It is not a prepared one: migrations change the
 * columns of `k.*` while processes of the previous release are connected, and poolers serve each statement by another session.
 */
const statement = `
  SELECT k.*, o.suspended_at AS "organisation.suspended_at", o.content_mode AS "organisation.content_mode",
    o.content_percent AS "organisation.content_percent", o.content_until AS "organisation.content_until",
    (
      SELECT json_agg(json_build_object('id', b.id, 'memberId', b.member_id, 'limitNano', b.limit_nano::text)) FROM budgets b
      WHERE b.organisation_id = k.organisation_id AND b.blocks AND b.member_id IN ('', k.created_by_id)
    ) AS "organisation.budgets",
    coalesce(s.spent_nano, 0) || ':' || coalesce(s.version, 0) AS "spend.figures"
  FROM api_keys k JOIN organisations o ON o.id = k.organisation_id
  LEFT JOIN key_spend s ON s.key_id = k.id AND s.month = $2
  WHERE k.hash = ANY($1)`

/** Reads the rows of keys from PostgreSQL: those that are asked for in one turn of the event loop by one statement. */
export class PolicyReader {
  readonly #pool: Pool
  readonly #clock: Clock
  readonly #waiting: Waiting[] = []

  constructor(pool: Pool, clock: Clock) {
    this.#pool = pool
    this.#clock = clock
  }

  /** Reads the row of the key with this hash; null = there is none. Rejects with what PostgreSQL reports. */
  read(hash: string): Promise<ReadPolicy | null> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ hash, resolve, reject })
      if (this.#waiting.length === 1) setImmediate(() => void this.#readBatch())
    })
  }

  async #readBatch(): Promise<void> {
    const batch = this.#waiting.splice(0, maxPerStatement)
    if (this.#waiting.length > 0) setImmediate(() => void this.#readBatch())
    const month = monthOf(this.#clock.now())
    try {
      const { rows } = await this.#pool.query(statement, [batch.map(({ hash }) => hash), month])
      const reads = new Map(rows.map(row => [row.hash as string, readPolicy(row, month)]))
      for (const { hash, resolve } of batch) resolve(reads.get(hash) ?? null)
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
  }
}

const bigColumns: ReadonlySet<string> = new Set(['monthly_spend_cap_nano'])
/** Null in them is an empty list to Prisma. */
const listColumns: ReadonlySet<string> = new Set(['model_allowlist', 'scopes', 'denied_service_tiers', 'budgets'])

/** A row of the statement as Prisma would return it. */
function readPolicy(columns: Record<string, unknown>, month: string): ReadPolicy {
  const row: Record<string, unknown> = {}
  const organisation: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(columns)) {
    if (name === 'spend.figures') continue
    const [table, column] = name.startsWith('organisation.') ? [organisation, name.slice(13)] : [row, name]
    table[fieldOf(column)] = readColumn(column, value)
  }
  row.organisation = organisation
  return { row: row as PolicyRow, spend: { month, figures: columns['spend.figures'] as string } }
}

function readColumn(column: string, value: unknown): unknown {
  if (value === null) return listColumns.has(column) ? [] : null
  if (column === 'budgets')
    return (value as { limitNano: string }[]).map(one => ({ ...one, limitNano: BigInt(one.limitNano) }))
  return bigColumns.has(column) ? BigInt(value as string) : value
}

const fields = new Map([
  ['denied_service_tiers', 'deniedTiers'],
  ['provider_preferences', 'provider'],
])

/** The name that Prisma's schema gives a column. */
function fieldOf(column: string): string {
  let field = fields.get(column)
  if (field === undefined) {
    field = column.replace(/_[a-z]/g, part => part[1]!.toUpperCase())
    fields.set(column, field)
  }
  return field
}
