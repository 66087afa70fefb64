import type { Prisma } from '../../../shared/generated/prisma/client.ts'
import type { Connection } from '../../../shared/io/db.ts'
import { countRequests } from '../../../shared/wallet/usage-times.ts'
import { endpoint, type Validated } from '../../endpoint.ts'
import { readPage } from '../../routes/paging.ts'
import { listed, presentRow } from '../present/present-request.ts'
import { findInHours, findLargest, inHours, isIndexed, isOfWholeHours, summedSearch } from '../queries/request-hours.ts'
import {
  beyond,
  figureColumns,
  orderBy,
  type RequestFilters,
  type RequestWhere,
  readPlace,
  requestFilters,
  requestSearch,
  searchBound,
  whereOf,
} from '../queries/request-search.ts'
import { runSearch } from '../queries/run-search.ts'
import { readWorkKeys } from '../queries/work.ts'
import { readExported, requestFields } from '../request-export.ts'
import { daysOf, type ExportFormat, exportName, sendExport } from '../row-export.ts'
import type { RequestCount, RequestsPage } from '../wire/requests.ts'

/**
 * The request log has millions of rows, an index by organisation and time, and hourly sums by model, provider, type,
 * key, environment and outcome. The dashboard sorts the log, counts what a search finds, and follows new requests.
 *
 * - Sort. By time, a page is read from the index. By cost, duration or tokens it needs all matches of the time range:
 *   each page reads them again, with the time limit of searches (5 seconds, then 400 naming `from`). An index per
 *   order would slow down every booking. A cursor is the id of a row; the next page begins after its value, time and
 *   id, so that equal values have no gaps. Input and output tokens are separate orders and filters, since a sum is no
 *   column.
 * - Count. The hourly sums are added up if they know all filters and the time is of whole hours. Otherwise up to
 *   10,000 rows are counted; where no index has what is searched for, among the latest 100,000 of the time (or of the
 *   hours that may have matches), and the count reads "at least". Refused calls that share a row count one by one, as
 *   in the chart.
 * - Exports read 1,000 rows at a time, and two pages at a time in a process, of the request log, the audit log and
 *   the ledger together. Searches have three slots of their own. So neither takes the connections that API requests
 *   need.
 * - Live tail. Requests are logged when they end and listed by when they began, so a slow request appears below newer
 *   ones. Each poll reads what is newer than the 51st row (`order=asc&after=`) and merges it. If that is more than a
 *   page, the list starts again with the newest: it never has a gap. The page keeps 500 rows, stops while it is
 *   hidden, and pauses ten times as long as a poll took.
 *
 * A request that ends after 50 newer ones have been listed appears when the list is loaded again. A sorted view of a
 * long, busy time can exceed the limit; a shorter time or a filter helps.
 */

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { permission: 'use' } } as const
const maxExported = 100_000
const maxCounted = 10_000
const maxRead = 100_000

const list = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/requests`,
  summary: 'Search the request log, newest first',
  description:
    'Sorted by `time`, a page is read from the index. By any other `sort` the first page reads the hours with the largest requests; further pages, smallest first and with other filters up to all matches of the time range, for at most 5 seconds: choose a short range. `after` continues in any order.',
  query: requestSearch,
  answers: { 200: { description: 'A page of requests.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, query }): Promise<RequestsPage> {
    const { limit, after, sort, order, ...filters } = query
    const ordering = { sort, order }
    const found = await whereOf(services, organisationId, filters)
    const where =
      after === undefined ? found : beyond(found, ordering, await readPlace(services, organisationId, after))
    const page = await readPage(
      { limit, order },
      ({ limit: take }) =>
        runSearch(
          services.db,
          searchBound,
          organisationId,
          tx => {
            const find = (narrowed: Prisma.GenerationWhereInput, take: number) =>
              tx.generation.findMany({ where: narrowed, select: listed, orderBy: orderBy(ordering), take })
            if (sort === 'time') return findInHours(tx, where, filters, { limit: take, order }, find)
            if (order === 'asc') return find(where, take)
            return findLargest(tx, where, filters, { limit: take, column: figureColumns[sort] }, find)
          },
          { byIndex: true },
        ),
      async rows => {
        const keys = await readWorkKeys(services, rows)
        return rows.map(row => presentRow(row, keys))
      },
    )
    return { data: page.data, has_more: page.has_more, last_id: page.last_id as string | null }
  },
})

const count = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/request-count`,
  summary: 'Count the requests that match a search',
  description: `Exact where the hourly sums know all filters and the time is of whole hours; otherwise at most ${maxCounted} log entries are counted. Where no index has what is searched for, these are among the latest ${maxRead} of the time.`,
  query: requestFilters,
  answers: { 200: { description: 'The number of requests, and whether there are more.' } },
  errors: ['not_found'],
  async handle({ services, organisationId, query }): Promise<RequestCount> {
    const where = await whereOf(services, organisationId, query)
    const summed = isOfWholeHours(services, where) ? summedSearch(where, query) : null
    const read = async (tx: Connection) => {
      if (summed) return { requests: await countRequests(tx, summed.filter, summed.among), has_more: false }
      const narrowed = await inHours(tx, where, query)
      const since = isIndexed(query) ? null : await readLimit(tx, narrowed)
      const counted = since ? { AND: [narrowed, { createdAt: { gt: since } }] } : narrowed
      const rows = { where: counted, orderBy: orderBy({ sort: 'time', order: 'desc' }), take: maxCounted }
      const { _count, _sum } = await tx.generation.aggregate({ ...rows, _count: true, _sum: { calls: true } })
      return { requests: _sum.calls ?? 0, has_more: _count === maxCounted || since !== null }
    }
    return runSearch(services.db, searchBound, organisationId, read, { byIndex: true })
  },
})

/** The time of the newest request that a count does not read; null if it reads all of a time. */
async function readLimit(tx: Connection, { organisationId, createdAt, OR }: RequestWhere): Promise<Date | null> {
  const where = { organisationId, createdAt, ...(OR && { OR }) }
  const order = { orderBy: { createdAt: 'desc' }, skip: maxRead } as const
  const row = await tx.generation.findFirst({ where, select: { createdAt: true }, ...order })
  return row?.createdAt ?? null
}

const exportCsv = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/requests.csv`,
  summary: 'Export the requests that match a search as CSV, newest first',
  query: requestFilters,
  answers: { 200: { description: `At most ${maxExported} requests.`, contentType: 'text/csv' } },
  errors: ['not_found'],
  handle: validated => exportRequests(validated, 'csv'),
})

const exportJson = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/requests.jsonl`,
  summary: 'Export the requests that match a search as JSON Lines, newest first',
  query: requestFilters,
  answers: {
    200: {
      description: `At most ${maxExported} requests, one JSON object per line.`,
      contentType: 'application/jsonl',
    },
  },
  errors: ['not_found'],
  handle: validated => exportRequests(validated, 'jsonl'),
})

async function exportRequests(
  { services, organisationId, query, ctx }: Validated<unknown, RequestFilters>,
  format: ExportFormat,
): Promise<void> {
  const where = await whereOf(services, organisationId, query)
  const { gte, lte } = where.createdAt
  const days = daysOf({ from: gte, to: new Date(Math.min(lte.getTime(), services.clock.now()) + 1) })
  await sendExport(ctx, await exportName(services.db, organisationId, 'requests', ...days), {
    fields: requestFields,
    read: (last, limit) => readExported(services, where, last, limit),
    format,
    max: maxExported,
  })
}

export const requestListRoutes = [list, count, exportCsv, exportJson]
