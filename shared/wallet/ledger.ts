import { DatabaseError } from 'pg'
import { Prisma } from '../generated/prisma/client.ts'
import type { Bulk, RunSql } from '../io/bulk.ts'
import type { Database } from '../io/db.ts'
import type { Redis } from '../io/redis.ts'
import { spendFigures, walletFigures } from './accounts.ts'
import type { Scripts } from './scripts.ts'
import type { UsageEvent } from './usage-event.ts'

export const usageStream = 'usage'
export const ledgerGroup = 'ledger'
/** Where an event goes that Postgres refuses by itself; `operator ledger check` reports it. */
export const deadStream = 'usage:dead'

export type StreamedEvent = { streamId: string; event: UsageEvent }

/** Creates the consumer group of the usage stream where there is none. */
export async function ensureLedgerGroup(redis: Redis): Promise<void> {
  try {
    await redis.xgroup('CREATE', usageStream, ledgerGroup, '0', 'MKSTREAM')
  } catch (error) {
    if (!(error as Error).message.includes('BUSYGROUP')) throw error
  }
}

/** The usage event of a stream entry's fields; null when it is none. */
export function parseEvent(fields: string[]): UsageEvent | null {
  try {
    const event = JSON.parse(fields[1] ?? '') as UsageEvent
    return isUsageEvent(event) ? event : null
  } catch {
    return null
  }
}

function isUsageEvent(event: UsageEvent | null): boolean {
  const named = [event?.id, event?.org, event?.key, event?.month].every(text => typeof text === 'string')
  const { cost, excess = 0 } = event ?? { cost: Number.NaN }
  const counted = Number.isSafeInteger(cost) && Number.isSafeInteger(excess) && excess >= 0 && excess <= cost
  return named && counted
}

/**
 * Books a batch in Postgres (request log, ledger, balances, key months: one transaction), then takes it off the stream.
 * Replaying a batch changes nothing: each charge is unique by its request. Throws what Postgres or Redis throw.
 */
export async function postUsage(
  { db, bulk, scripts }: { db: Database; bulk: Bulk; scripts: Scripts },
  batch: StreamedEvent[],
  nowMs: number,
): Promise<void> {
  const events = batch.map(({ event }) => event)
  await bulk.transaction(run => bookUsage(run, events))
  const organisations = [...new Set(events.map(event => event.org))]
  // Read after the commit, for replayed events too: whoever booked them may have died before Redis heard of it.
  const keyMonths = new Map(events.map(({ key: keyId, month }) => [`${keyId} ${month}`, { keyId, month }]))
  const [wallets, spends] = await Promise.all([
    walletFigures(db, organisations, nowMs),
    spendFigures(db, [...keyMonths.values()]),
  ])
  await takeOff(scripts, batch, [organisations.length, ...wallets, ...spends])
}

/** Books events within the caller's transaction: request log, ledger, balances, key months. Each once, whatever happens. */
export function bookUsage(run: RunSql, events: readonly UsageEvent[]): Promise<void> {
  // One order for all workers, so that two of them never wait for each other in a circle.
  const organisations = [...new Set(events.map(event => event.org))].sort()
  return bookUsageJson(run, organisations, storableJson(events))
}

/** The same for events given as JSON, a list of what `storableJson` makes of each; with their organisations, sorted. */
export async function bookUsageJson(run: RunSql, organisations: string[], json: string): Promise<void> {
  await run(
    Prisma.sql`SELECT 1 FROM wallets WHERE organisation_id = ANY(${organisations}) ORDER BY organisation_id FOR UPDATE`,
  )
  await run(bookingSql(json))
}

/** Takes events off the stream and out of what Redis counts as unposted, together with the `figures` Postgres has instead. */
export async function takeOff(
  scripts: Scripts,
  batch: StreamedEvent[],
  figures: (string | number)[] = [0],
): Promise<void> {
  const taken = batch.flatMap(({ streamId, event }) => [streamId, event.org, event.key, event.month, event.cost])
  await scripts.post([batch.length, ...taken, ...figures])
}

const maxTextLength = 500

/** Texts of providers as Postgres can store and index them: for `JSON.stringify`. */
export function storable(_field: string, value: unknown): unknown {
  return typeof value === 'string' ? value.slice(0, maxTextLength).replaceAll('\0', '').toWellFormed() : value
}

/** JSON whose texts are `storable`. A replacer makes `JSON.stringify` several times slower, so it is used only where it would change something. */
export function storableJson(value: object): string {
  const json = JSON.stringify(value)
  const isStorable = !json.includes('\\u0000') && !json.includes('\\ud') && hasShortTexts(value)
  return isStorable ? json : JSON.stringify(value, storable)
}

function hasShortTexts(value: object): boolean {
  for (const name in value) {
    const field = (value as Record<string, unknown>)[name]
    if (typeof field === 'string' ? field.length > maxTextLength : isObject(field) && !hasShortTexts(field))
      return false
  }
  return true
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function bookingSql(json: string): Prisma.Sql {
  return Prisma.sql`
    WITH event AS (
      SELECT *, id || CASE WHEN part > 0 THEN ':' || part ELSE '' END AS reference,
        to_timestamp(coalesce("chargedAt", at) / 1000.0) AS charged_at, least(coalesce(excess, 0), cost) AS beyond
      FROM jsonb_to_recordset(${json}::jsonb) AS e(
        id text, at bigint, org text, key text, month text, environment text, "requestId" text, "upstreamId" text, kind text,
        model text, provider text, mode text, status int, "errorCode" text, "finishReason" text, streamed boolean, attempts int,
        "promptTokens" int, "completionTokens" int, "cachedTokens" int, "reasoningTokens" int, estimated boolean, cost bigint,
        excess bigint, waiver text, cap bigint, "firstByteMs" int, "durationMs" int, part int, "chargedAt" bigint, routing jsonb)
    ), entry AS (
      -- A replayed batch may have an event twice.
      SELECT DISTINCT ON (cause) * FROM (
        SELECT id, org, key, month, cap, part, charged_at, 'charge'::ledger_kind AS kind, cost - beyond AS amount,
          'generation:' || reference AS cause
        FROM event
        UNION ALL
        SELECT id, org, key, month, cap, part, charged_at, 'excess', beyond, 'excess:' || reference FROM event
      ) e WHERE amount > 0 ORDER BY cause
    ), booked AS (
      INSERT INTO ledger_entries (organisation_id, kind, amount_nano, cause, key_id, created_at)
      SELECT org, kind, -amount, cause, key, charged_at FROM entry
      ON CONFLICT (cause) DO NOTHING
      RETURNING organisation_id, amount_nano, cause
    ), logged AS (
      INSERT INTO generations (id, created_at, organisation_id, key_id, request_id, upstream_id, kind, environment, model, provider,
        mode, status, error_code, finish_reason, streamed, attempts, prompt_tokens, completion_tokens, cached_tokens,
        reasoning_tokens, estimated, cost_nano, waiver, first_byte_ms, duration_ms, part, routing)
      SELECT DISTINCT ON (id) id, to_timestamp(at / 1000.0), org, key, "requestId", "upstreamId", kind, environment::environment, model,
        provider, mode, status, "errorCode", "finishReason", streamed, attempts, "promptTokens", "completionTokens", "cachedTokens",
        "reasoningTokens", estimated, coalesce(c.cost_nano, 0), waiver, "firstByteMs", "durationMs", coalesce(part, 0), routing
      FROM event LEFT JOIN (
        SELECT id, -sum(amount_nano) AS cost_nano FROM entry JOIN booked USING (cause) GROUP BY id
      ) c USING (id)
      ORDER BY id, coalesce(part, 0) DESC
      ON CONFLICT (id, created_at) DO UPDATE SET
        status = CASE WHEN excluded.part > generations.part THEN excluded.status ELSE generations.status END,
        error_code = CASE WHEN excluded.part > generations.part THEN excluded.error_code ELSE generations.error_code END,
        finish_reason = CASE WHEN excluded.part > generations.part THEN excluded.finish_reason ELSE generations.finish_reason END,
        prompt_tokens = greatest(generations.prompt_tokens, excluded.prompt_tokens),
        completion_tokens = greatest(generations.completion_tokens, excluded.completion_tokens),
        cached_tokens = greatest(generations.cached_tokens, excluded.cached_tokens),
        reasoning_tokens = greatest(generations.reasoning_tokens, excluded.reasoning_tokens),
        duration_ms = greatest(generations.duration_ms, excluded.duration_ms),
        cost_nano = generations.cost_nano + excluded.cost_nano,
        part = greatest(generations.part, excluded.part)
      WHERE excluded.part > generations.part OR excluded.cost_nano > 0
    ), balance AS (
      INSERT INTO wallets (organisation_id, balance_nano, version, updated_at)
      SELECT organisation_id, sum(amount_nano), 1, now() FROM booked GROUP BY organisation_id
      ON CONFLICT (organisation_id) DO UPDATE
      SET balance_nano = wallets.balance_nano + excluded.balance_nano, version = wallets.version + 1, updated_at = now()
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
    ON CONFLICT (key_id, month) DO UPDATE SET
      spent_nano = key_spend.spent_nano + excluded.spent_nano,
      excess_nano = key_spend.excess_nano + excluded.excess_nano,
      cap_nano = CASE WHEN key_spend.cap_nano IS NULL OR excluded.cap_nano IS NULL THEN NULL
                      ELSE greatest(key_spend.cap_nano, excluded.cap_nano) END,
      requests = key_spend.requests + excluded.requests,
      version = key_spend.version + 1`
}

/** Classes of Postgres' error codes: data exception, constraint violation, limit exceeded. */
const dataFaultClasses = new Set(['22', '23', '54'])

/** True when Postgres refuses the data itself (not the connection): trying again would change nothing. */
export function isDataFault(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && dataFaultClasses.has(error.code?.slice(0, 2) ?? '')
}
