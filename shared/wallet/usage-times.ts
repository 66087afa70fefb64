import { hourMs } from '../base/time.ts'
import { Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import type { Outcome } from './usage-hours.ts'
import { starts, tableOf, type UsageFilter, whereOf } from './usage-source.ts'

/** When there was what: the hours of usage in which requests of some sort are. */

const minFailed = 5
/** An hour is listed if at least one in this many of its requests failed. */
const maxRequestsPerFailure = 4
const maxFailingHours = 1_000
const recentMs = 15 * 60_000
/** Maximum requests, the latest ones, that decide whether a provider fails now. */
const maxRecent = 20_000

export type FailingHour = { provider: string; hour: Date; failed: bigint; requests: bigint }

/** The hours in which at least five requests, and a quarter of a provider's, ended with 5xx; oldest first. */
export function listFailingHours(db: Connection, filter: UsageFilter): Promise<FailingHour[]> {
  const failed = Prisma.sql`coalesce(sum(requests) FILTER (WHERE outcome = 'failed'), 0)::bigint`
  return db.$queryRaw<FailingHour[]>`
    SELECT * FROM (
      SELECT provider, hour, ${failed} AS failed, sum(requests)::bigint AS requests FROM usage_hours u
      WHERE ${whereOf(filter, starts.hour)}
      GROUP BY 1, 2 HAVING ${failed} >= ${minFailed} AND ${failed} * ${maxRequestsPerFailure} >= sum(requests)
      ORDER BY hour DESC LIMIT ${maxFailingHours}
    ) h ORDER BY hour, provider`
}

/** When a provider's requests failed with 5xx within a time, first and last; '' are requests that no provider served. */
export async function findFailureSpan(
  db: Connection,
  filter: UsageFilter,
  { provider, from, to }: { provider: string; from: Date; to: Date },
): Promise<{ first: Date; last: Date } | null> {
  const failures = { ...filter, provider, from, to, outcomes: ['failed'] } as const
  // Of a long time, the hours between the first and the last one need not be read.
  const [start, end] = [new Date(from.getTime() + hourMs), new Date(to.getTime() - hourMs)]
  const [row] = await db.$queryRaw<{ first: Date | null; last: Date | null }[]>`
    SELECT min(u.hour) AS first, max(u.hour) AS last FROM ${tableOf('log', failures, null)} u
    WHERE ${whereOf(failures, null)} AND (u.hour < ${start} OR u.hour >= ${end})`
  return row?.first && row.last ? { first: row.first, last: row.last } : null
}

/** A provider whose requests fail now: figures from `from` on, the first of its failures since which a quarter of its requests failed. */
type CurrentFailure = { provider: string; from: Date; requests: bigint; failed: bigint }

/**
 * The providers that fail at the end of a time: at least five of their requests failed with 5xx, a quarter of those in its last 15 minutes,
 * and fewer than five have succeeded since.
 */
export function listCurrentFailures(db: Connection, filter: UsageFilter): Promise<CurrentFailure[]> {
  const lately = new Date(filter.to.getTime() - recentMs)
  return db.$queryRaw<CurrentFailure[]>`
    WITH latest AS (
      SELECT u.provider, u.hour AS at, u.outcome = 'failed' AS failed, u.outcome = 'ok' AS succeeded
      FROM ${tableOf('log', filter, null)} u WHERE ${whereOf(filter, null)} ORDER BY u.hour DESC LIMIT ${maxRecent}
    ), counted AS (
      SELECT *, count(*) OVER since AS requests_since, count(*) FILTER (WHERE failed) OVER since AS failed_since,
        max(at) FILTER (WHERE failed) OVER (PARTITION BY provider) AS last
      FROM latest WINDOW since AS (PARTITION BY provider ORDER BY at DESC)
    ), begun AS (
      SELECT *, min(at) FILTER (WHERE failed AND failed_since * ${maxRequestsPerFailure} >= requests_since)
        OVER (PARTITION BY provider) AS "from"
      FROM counted
    )
    SELECT provider, "from", count(*) FILTER (WHERE at >= "from") AS requests, count(*) FILTER (WHERE failed AND at >= "from") AS failed
    FROM begun GROUP BY provider, "from"
    HAVING count(*) FILTER (WHERE failed AND at >= "from") >= ${minFailed}
      AND count(*) FILTER (WHERE succeeded AND at > last) < ${minFailed} AND max(last) >= ${lately}
      AND count(*) FILTER (WHERE failed AND at >= ${lately}) * ${maxRequestsPerFailure} >= count(*) FILTER (WHERE at >= ${lately})
    ORDER BY failed DESC, provider`
}

/** What the hours of a search have: requests of a filter, one of the outcomes if there are any, and figures that reach a minimum. */
export type HourSearch = {
  filter: UsageFilter
  among: readonly Outcome[]
  minimums: readonly { column: PeakColumn; value: number | bigint }[]
}

const peaks = {
  durationMs: Prisma.sql`duration_ms`,
  costNano: Prisma.sql`cost_nano`,
  promptTokens: Prisma.sql`prompt_tokens`,
  completionTokens: Prisma.sql`completion_tokens`,
}

export type PeakColumn = keyof typeof peaks

/** An hour that a search has to read. `requests`: how many the sums find in it; with minimums 0, as they do not know. */
export type HourOfSearch = { hour: Date; requests: number }

/**
 * The latest hours that a search has to read, newest first; with `asc`, the earliest. Without minimums an hour that is listed has at least
 * one row in the request log. Otherwise other rows may have the values, or had them before they were changed.
 */
export function listHours(
  db: Connection,
  { filter, among, minimums }: HourSearch,
  { limit, order }: { limit: number; order: 'asc' | 'desc' },
): Promise<HourOfSearch[]> {
  const where = whereOf(filter, starts.hour)
  const isOfModels = among.length === 0 && groupFilters.every(name => filter[name] === undefined)
  const high = whereHigh(minimums)
  const ofGroups = Prisma.sql`usage_hours u WHERE ${where} ${whereAmong(among)} AND u.requests > 0`
  const highModels = Prisma.sql`SELECT hour, model FROM usage_peaks u WHERE u.organisation_id = ${filter.organisationId} ${high}`
  const listed =
    minimums.length === 0
      ? ofGroups
      : isOfModels
        ? Prisma.sql`usage_peaks u WHERE ${where} ${high}`
        : Prisma.sql`${ofGroups} AND (u.hour, u.model) IN (${highModels})`
  const requests = minimums.length === 0 ? Prisma.sql`sum(u.requests)::float8` : Prisma.sql`0::float8`
  return db.$queryRaw<HourOfSearch[]>`
    SELECT hour, ${requests} AS requests FROM ${listed} GROUP BY hour ORDER BY hour ${Prisma.raw(order)} LIMIT ${limit}`
}

/** What the peaks do not know. */
const groupFilters = ['environment', 'keyId', 'provider', 'type', 'outcomes'] as const

/** The hours of a search with the largest peaks of a figure, and those with the same as the last, the largest first. Of the filter only the time and the model count. */
export function listPeaks(
  db: Connection,
  { filter: { organisationId, from, to, model }, minimums }: HourSearch,
  column: PeakColumn,
  limit: number,
): Promise<{ hour: Date; peak: number | bigint }[]> {
  return db.$queryRaw<{ hour: Date; peak: number | bigint }[]>`
    SELECT hour, max(${peaks[column]}) AS peak FROM usage_peaks u
    WHERE ${whereOf({ organisationId, from, to, model }, starts.hour)} ${whereHigh(minimums)}
    GROUP BY hour ORDER BY peak DESC FETCH FIRST (${limit}::bigint) ROWS WITH TIES`
}

function whereHigh(minimums: HourSearch['minimums']): Prisma.Sql {
  if (minimums.length === 0) return Prisma.empty
  return Prisma.sql`AND ${Prisma.join(
    minimums.map(({ column, value }) => Prisma.sql`u.${peaks[column]} >= ${value}`),
    ' AND ',
  )}`
}

/** The number of requests that a filter finds in whole hours, with one of the outcomes if there are any. */
export async function countRequests(db: Connection, filter: UsageFilter, among: readonly Outcome[]): Promise<number> {
  const [row] = await db.$queryRaw<{ requests: bigint }[]>`
    SELECT coalesce(sum(requests), 0)::bigint AS requests FROM usage_hours u
    WHERE ${whereOf(filter, starts.hour)} ${whereAmong(among)}`
  return Number(row!.requests)
}

function whereAmong(among: readonly Outcome[]): Prisma.Sql {
  return among.length > 0 ? Prisma.sql`AND u.outcome = ANY(${[...among]})` : Prisma.empty
}
