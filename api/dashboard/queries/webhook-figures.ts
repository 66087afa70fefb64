import { dayMs } from '../../../shared/base/time.ts'
import type { Platform } from '../../../shared/platform.ts'
import type { AddressFigures } from '../wire/webhook-endpoints.ts'
import { runSearch } from './run-search.ts'
import { usageBound } from './usage-filter.ts'

/** Maximum deliveries, the latest ones, that the figures are computed from. */
const maxDeliveries = 10_000
const maxAddresses = 100
const maxText = 200

type Row = {
  url: string
  delivered: bigint
  failed: bigint
  retrying: bigint
  lastAt: Date
  p95: number | null
  failedAt: Date | null
  failureStatus: number | null
  failureText: string | null
}

export const noFigures: AddressFigures = {
  delivered: 0,
  failed: 0,
  retrying: 0,
  p95_ms: null,
  last_event_at: null,
  last_failure: null,
}

/** The figures of the last 24 hours by URL, the latest used first. */
export async function readFigures(
  { db, clock }: Platform,
  organisationId: string,
  url?: string,
): Promise<Map<string, AddressFigures>> {
  const since = new Date(clock.now() - dayMs)
  const rows = await runSearch(
    db,
    usageBound,
    organisationId,
    tx => tx.$queryRaw<Row[]>`
      WITH recent AS (
        SELECT id, url, status, attempts, created_at FROM webhook_deliveries
        WHERE organisation_id = ${organisationId} AND created_at >= ${since}
          AND (${url ?? null}::text IS NULL OR url = ${url ?? null})
        ORDER BY created_at DESC LIMIT ${maxDeliveries}),
      addresses AS (
        SELECT url, count(*) FILTER (WHERE status = 'delivered') AS delivered,
          count(*) FILTER (WHERE status = 'failed') AS failed,
          count(*) FILTER (WHERE status = 'pending' AND attempts > 0) AS retrying, max(created_at) AS "lastAt"
        FROM recent GROUP BY url ORDER BY max(created_at) DESC LIMIT ${maxAddresses}),
      attempts AS (
        SELECT r.url, a.at, a.duration_ms, a.status, coalesce(a.error, a.response) AS text,
          a.status IS NULL OR a.status NOT BETWEEN 200 AND 299 AS failed
        FROM recent r JOIN webhook_attempts a ON a.delivery_id = r.id),
      times AS (
        SELECT url, percentile_cont(0.95) WITHIN GROUP (ORDER BY duration_ms) AS p95 FROM attempts GROUP BY url),
      failures AS (
        SELECT DISTINCT ON (url) url, at AS "failedAt", status AS "failureStatus", text AS "failureText"
        FROM attempts WHERE failed ORDER BY url, at DESC)
      SELECT * FROM addresses LEFT JOIN times USING (url) LEFT JOIN failures USING (url) ORDER BY "lastAt" DESC`,
  )
  return new Map(rows.map(row => [row.url, figuresOf(row)]))
}

function figuresOf(row: Row): AddressFigures {
  return {
    delivered: Number(row.delivered),
    failed: Number(row.failed),
    retrying: Number(row.retrying),
    p95_ms: row.p95 === null ? null : Math.round(row.p95),
    last_event_at: row.lastAt.toISOString(),
    last_failure: row.failedAt && {
      at: row.failedAt.toISOString(),
      status: row.failureStatus,
      text: (row.failureText ?? '').slice(0, maxText),
    },
  }
}
