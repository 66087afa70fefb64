import { Prisma } from '../generated/prisma/client.ts'
import type { RunSql } from '../io/raw-pool.ts'
import { storableJson } from './storable-json.ts'
import { type LoggedColumn, type LoggedField, loggedColumns, type UsageEvent } from './usage-event.ts'

/**
 * Books events within the caller's transaction: request log, ledger, balances, key months. Idempotent per event. Months
 * close by `nowMs`.
 */
export function bookUsage(run: RunSql, events: readonly UsageEvent[], nowMs: number): Promise<void> {
  // All workers lock wallets in the same order, to prevent deadlocks.
  const organisations = [...new Set(events.map(event => event.org))].sort()
  return bookUsageJson(run, organisations, storableJson(events), nowMs)
}

/** Like `bookUsage`, for a JSON array of events from `storableJson`, with their organisations, sorted. */
export async function bookUsageJson(run: RunSql, organisations: string[], json: string, nowMs: number): Promise<void> {
  await run(
    // Organisations too: keys are locked below (shared/io/organisation-locks.ts).
    Prisma.sql`SELECT 1 FROM wallets w JOIN organisations o ON o.id = w.organisation_id
      WHERE w.organisation_id = ANY(${organisations}) ORDER BY w.organisation_id FOR UPDATE OF w FOR KEY SHARE OF o`,
  )
  await run(bookingSql(json, new Date(nowMs).toISOString()))
}

/** Adds an inserted balance to that of an existing wallet. */
export const addToBalance = Prisma.sql`
  ON CONFLICT (organisation_id) DO UPDATE
  SET balance_nano = wallets.balance_nano + excluded.balance_nano, version = wallets.version + 1, updated_at = now()`

/** Adds inserted figures to those of an existing key month. */
export const addToKeyMonth = Prisma.sql`
  ON CONFLICT (key_id, month) DO UPDATE SET
    spent_nano = key_spend.spent_nano + excluded.spent_nano,
    excess_nano = key_spend.excess_nano + excluded.excess_nano,
    cap_nano = CASE WHEN key_spend.cap_nano IS NULL OR excluded.cap_nano IS NULL THEN NULL
                    ELSE greatest(key_spend.cap_nano, excluded.cap_nano) END,
    requests = key_spend.requests + excluded.requests,
    version = key_spend.version + 1`

/** The columns of the request log, as the booking statement needs them. */
const logged = loggedSql()

function loggedSql() {
  const fields = Object.keys(loggedColumns) as LoggedField[]
  const list = (texts: string[]) => Prisma.raw(texts.join(', '))
  return {
    /** Definitions of the fields of an event. */
    types: list(fields.map(field => `"${field}" ${loggedColumns[field].type}`)),
    fields: list(fields.map(field => `"${field}"`)),
    columns: list(fields.map(columnOf)),
    merges: list(fields.flatMap(mergeOf)),
  }
}

function columnOf(field: LoggedField): string {
  return field.replace(/[A-Z]/g, letter => `_${letter.toLowerCase()}`)
}

/** Merges a column of a session's later part into its row. */
function mergeOf(field: LoggedField): string[] {
  const column: LoggedColumn = loggedColumns[field]
  const name = columnOf(field)
  if (column.merge === 'greatest') return [`${name} = greatest(generations.${name}, excluded.${name})`]
  if (column.merge === 'latest')
    return [`${name} = CASE WHEN excluded.part > generations.part THEN excluded.${name} ELSE generations.${name} END`]
  return []
}

/** `now` closes months (`ledger_now()`), and is set before the first entry is inserted. */
function bookingSql(json: string, now: string): Prisma.Sql {
  return Prisma.sql`
    WITH event AS (
      SELECT *, id || CASE WHEN part > 0 THEN ':' || part ELSE '' END AS reference,
        to_timestamp(coalesce("chargedAt", at) / 1000.0) AS charged_at, least(coalesce(excess, 0), cost) AS beyond
      FROM jsonb_to_recordset(${json}::jsonb) AS e(
        id text, at bigint, org text, key text, month text, cost bigint, excess bigint, cap bigint, part int, "chargedAt" bigint,
        ${logged.types}), (SELECT set_config('headgate.now', ${now}, true)) AS clock
    ), entry AS (
      -- A replayed batch may contain an event twice.
      SELECT DISTINCT ON (cause) * FROM (
        SELECT id, org, key, month, cap, part, charged_at, 'charge'::ledger_kind AS kind, cost - beyond AS amount,
          'generation:' || reference AS cause
        FROM event
        UNION ALL
        SELECT id, org, key, month, cap, part, charged_at, 'excess', beyond, 'excess:' || reference FROM event
      ) e WHERE amount > 0 ORDER BY cause
    ), booked AS (
      INSERT INTO ledger_entries (organisation_id, kind, amount_nano, cause, key_id, created_at, month)
      SELECT org, kind, -amount, cause, key, charged_at, month FROM entry
      ON CONFLICT (cause) DO NOTHING
      RETURNING organisation_id, amount_nano, cause
    ), logged AS (
      INSERT INTO generations (id, created_at, organisation_id, key_id, cost_nano, part, ${logged.columns})
      SELECT DISTINCT ON (id) id, to_timestamp(at / 1000.0), org, key, coalesce(c.cost_nano, 0), coalesce(part, 0), ${logged.fields}
      FROM event LEFT JOIN (
        SELECT id, -sum(amount_nano) AS cost_nano FROM entry JOIN booked USING (cause) GROUP BY id
      ) c USING (id)
      ORDER BY id, coalesce(part, 0) DESC
      ON CONFLICT (id, created_at) DO UPDATE SET
        ${logged.merges},
        cost_nano = generations.cost_nano + excluded.cost_nano,
        part = greatest(generations.part, excluded.part)
      WHERE excluded.part > generations.part OR excluded.cost_nano > 0
    ), balance AS (
      INSERT INTO wallets (organisation_id, balance_nano, version, updated_at)
      SELECT organisation_id, sum(amount_nano), 1, now() FROM booked GROUP BY organisation_id
      ${addToBalance}
    ), used AS (
      UPDATE api_keys SET last_used_at = e.last FROM (SELECT key, max(charged_at) AS last FROM event GROUP BY key) e
      WHERE api_keys.id = e.key
    )
    INSERT INTO key_spend (key_id, month, spent_nano, excess_nano, cap_nano, requests, version)
    SELECT key, month, sum(amount), coalesce(sum(amount) FILTER (WHERE kind = 'excess'), 0),
      CASE WHEN bool_or(cap IS NULL) THEN NULL ELSE max(cap) END,
      count(DISTINCT id) FILTER (WHERE part IS NULL OR part = 0), 1
    FROM entry JOIN booked USING (cause)
    GROUP BY key, month
    ${addToKeyMonth}`
}
