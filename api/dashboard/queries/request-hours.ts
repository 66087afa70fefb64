import { hourMs } from '../../../shared/base/time.ts'
import type { Connection } from '../../../shared/io/db.ts'
import type { Platform } from '../../../shared/platform.ts'
import type { Outcome } from '../../../shared/wallet/usage-hours.ts'
import type { UsageFilter } from '../../../shared/wallet/usage-source.ts'
import {
  type HourOfSearch,
  type HourSearch,
  listHours,
  listPeaks,
  type PeakColumn,
} from '../../../shared/wallet/usage-times.ts'
import type { RequestFilters, RequestWhere } from './request-search.ts'
import { statusOutcomes } from './usage-filter.ts'

/** Which hours of the request log a search has to read, as the sums of usage know: rare requests are found without all others. */

/** Maximum hours in the conditions of one query. */
const maxHoursPerRead = 1_000
/** The factor by which more hours are read when those before had too few large figures. */
const moreHours = 4

/** The classes of responses that a search can name, by their outcomes. A single status has an index. */
const { 429: _limited, 499: _cancelled, ...classes } = statusOutcomes

/** The part of the sums of usage that a search counts; null if it asks for something that they do not know. `where` is from `whereOf`. */
export function summedSearch(
  where: RequestWhere,
  filters: RequestFilters,
): { filter: UsageFilter; among: readonly Outcome[] } | null {
  const {
    status,
    model: _m,
    provider: _p,
    type: _t,
    environment: _e,
    key: _k,
    from: _f,
    to: _to,
    span: _s,
    ...unsummed
  } = filters
  const among = outcomesOf(status)
  if (!among || Object.values(unsummed).some(value => value !== undefined)) return null
  return { filter: usageFilterOf(where, filters), among }
}

function outcomesOf(status: string | undefined): readonly Outcome[] | undefined {
  return status === undefined ? [] : (classes as Record<string, readonly Outcome[]>)[status]
}

function usageFilterOf(
  { organisationId, keyId, createdAt: { gte, lte } }: RequestWhere,
  { model, provider, type, environment }: RequestFilters,
): UsageFilter {
  return { organisationId, from: gte, to: new Date(lte.getTime() + 1), environment, keyId, model, provider, type }
}

/** Whether an index has the rows of a search: its ids, errors, end user, session or batch. */
export function isIndexed({
  q,
  status,
  error_code: errorCode,
  error_message: errorMessage,
  end_user: endUser,
  session,
  batch,
}: RequestFilters): boolean {
  return [q, errorCode, errorMessage, endUser, session, batch].some(value => value !== undefined) || !outcomesOf(status)
}

/** What is known of the hours of a search; null if nothing is, or if an index finds its rows. */
function hourSearch(where: RequestWhere, filters: RequestFilters): HourSearch | null {
  const { model, provider, type, environment } = filters
  const isRare = [model, provider, type, environment, where.keyId].some(value => value !== undefined)
  const minimums = minimumsOf(where)
  if (isIndexed(filters) || (!isRare && minimums.length === 0)) return null
  return { filter: usageFilterOf(where, filters), among: outcomesOf(filters.status)!, minimums }
}

function minimumsOf({ durationMs, costNano, promptTokens, completionTokens }: RequestWhere): HourSearch['minimums'] {
  return Object.entries({ durationMs, costNano, promptTokens, completionTokens }).flatMap(([column, asked]) =>
    asked === undefined ? [] : [{ column: column as PeakColumn, value: (asked as { gte: bigint | number }).gte }],
  )
}

/**
 * Finds the first rows of a search in order of time. `read` searches the hours that may have matches, more of them each time, until it has
 * found as many as wanted or there are no more. If the sums know all filters, it begins with as many hours as have enough by the sums. A
 * search of whose hours nothing is known is one read.
 */
export async function findInHours<Row>(
  tx: Connection,
  where: RequestWhere,
  filters: RequestFilters,
  { limit, order }: { limit: number; order: 'asc' | 'desc' },
  read: (where: RequestWhere, take: number) => Promise<Row[]>,
): Promise<Row[]> {
  const known = hourSearch(where, filters)
  if (!known) return read(where, limit)
  const rows: Row[] = []
  let { filter } = known
  let isCounted = summedSearch(where, filters) !== null
  // The rows beyond a cursor may begin within an hour and have none in it.
  for (let count = limit + 1; ; count = Math.min(2 * count, maxHoursPerRead)) {
    const listed = await listHours(tx, { ...known, filter }, { limit: count, order })
    const hours = isCounted ? firstWith(listed, limit) : listed.map(({ hour }) => hour)
    if (hours.length > 0) rows.push(...(await read(within(where, hours), limit - rows.length)))
    if (rows.length === limit || (hours.length === listed.length && listed.length < count)) return rows
    const last = hours.at(-1)!
    filter = order === 'desc' ? { ...filter, to: last } : { ...filter, from: new Date(last.getTime() + hourMs) }
    isCounted = false
  }
}

/** The first hours that have so many requests together, without those of the very first, in which a cursor may be. */
function firstWith(listed: readonly HourOfSearch[], requests: number): Date[] {
  const hours: Date[] = []
  let found = 0
  for (const one of listed) {
    if (hours.length > 0) found += one.requests
    hours.push(one.hour)
    if (found >= requests) break
  }
  return hours
}

/**
 * Finds the first rows of a search in order of a figure, the largest first. Rows that reach a value are only in hours whose peaks do, so
 * `read` searches the hours with the largest peaks for rows that reach the least of these, and more of them until it has found as many as wanted.
 */
export async function findLargest<Row>(
  tx: Connection,
  where: RequestWhere,
  filters: RequestFilters,
  { limit, column }: { limit: number; column: PeakColumn },
  read: (where: RequestWhere, take: number) => Promise<Row[]>,
): Promise<Row[]> {
  if (isIndexed(filters)) return read(where, limit)
  const search = { filter: usageFilterOf(where, filters), among: [], minimums: minimumsOf(where) }
  for (let count = limit; count <= maxHoursPerRead; count *= moreHours) {
    const hours = await listPeaks(tx, search, column, count)
    if (hours.length < count || hours.length > maxHoursPerRead) break
    const { peak } = hours.at(-1)!
    const times = hours.map(({ hour }) => hour)
    const rows = await read({ ...within(where, times), AND: [...where.AND, { [column]: { gte: peak } }] }, limit)
    if (rows.length === limit) return rows
  }
  return read(where, limit)
}

/** Narrows a search to the hours that may have matches, if that is known. */
export async function inHours(tx: Connection, where: RequestWhere, filters: RequestFilters): Promise<RequestWhere> {
  const known = hourSearch(where, filters)
  if (!known) return where
  const listed = await listHours(tx, known, { limit: maxHoursPerRead + 1, order: 'desc' })
  if (listed.length > maxHoursPerRead) return where
  return within(
    where,
    listed.map(({ hour }) => hour),
  )
}

/** The rows of a search in some hours. */
function within(where: RequestWhere, hours: readonly Date[]): RequestWhere {
  const spans = mergeHours(hours)
  const [newest, oldest] = [spans[0], spans.at(-1)]
  const { gte, lte } = where.createdAt
  // Also without the alternatives: an index finds one span of time.
  const createdAt = {
    gte: oldest && oldest.gte > gte ? oldest.gte : gte,
    lte: newest && newest.lt < lte ? newest.lt : lte,
  }
  return { ...where, createdAt, OR: spans.map(span => ({ createdAt: span })) }
}

/** Whether a time begins and ends with an hour of the sums, or has not ended. */
export function isOfWholeHours({ clock }: Platform, { createdAt: { gte, lte } }: RequestWhere): boolean {
  return gte.getTime() % hourMs === 0 && (lte.getTime() >= clock.now() || (lte.getTime() + 1) % hourMs === 0)
}

/** The spans that hours cover; newest first. */
function mergeHours(hours: readonly Date[]): { gte: Date; lt: Date }[] {
  const spans: { fromMs: number; toMs: number }[] = []
  for (const fromMs of hours.map(hour => hour.getTime()).sort((a, b) => b - a)) {
    const last = spans.at(-1)
    if (last?.fromMs === fromMs + hourMs) last.fromMs = fromMs
    else spans.push({ fromMs, toMs: fromMs + hourMs })
  }
  return spans.map(({ fromMs, toMs }) => ({ gte: new Date(fromMs), lt: new Date(toMs) }))
}
