import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { usdFromNano } from '../../../shared/base/money.ts'
import type { Connection } from '../../../shared/io/db.ts'
import type { Platform } from '../../../shared/platform.ts'
import { sumUsage, type UsageGrouping } from '../../../shared/wallet/usage-query.ts'
import { dimensions, type UsageFilter } from '../../../shared/wallet/usage-source.ts'
import { endpoint } from '../../endpoint.ts'
import { presentSums, usageCsv } from '../../routes/usage.ts'
import { runSearch } from '../queries/run-search.ts'
import { granularity, inPeriods, readSpan, type Span } from '../queries/span.ts'
import { readUsageFilter, sourceOf, usageBound, usageFields } from '../queries/usage-filter.ts'
import { namesOf } from '../queries/usage-names.ts'
import { daysOf, exportName } from '../row-export.ts'
import type { UsageBefore, UsageGroups } from '../wire/usage.ts'
import { presentPeriods, zeroUsage } from './activity.ts'

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { role: 'member' } } as const
const maxGroups = 200
const maxExported = 10_000

const groupsQuery = z.strictObject({
  ...usageFields,
  by: z.enum(dimensions).default('key'),
  then_by: z.enum(dimensions).optional(),
  granularity,
})
type GroupsQuery = z.output<typeof groupsQuery>

const groups = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/usage/groups`,
  summary: 'Retrieve usage by up to two properties',
  description:
    'Without `granularity`, one row per group, the most expensive first, with its usage in the time of the same length before. With it, one row per period and group, the latest first.',
  query: groupsQuery,
  answers: { 200: { description: `The first ${maxGroups} rows, and the total.` } },
  errors: ['not_found'],
  async handle({ services, organisationId, query }): Promise<UsageGroups> {
    const { span, environment, rows, ...totals } = await readGroups(services, organisationId, query, maxGroups)
    const { from, to } = presentPeriods(span, environment)
    return { from, to, environment, rows: rows.slice(0, maxGroups), ...totals, has_more: rows.length > maxGroups }
  },
})

const csvFile = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/usage/groups.csv`,
  summary: 'Export usage by up to two properties as CSV',
  query: groupsQuery,
  answers: { 200: { description: `At most ${maxExported} rows.`, contentType: 'text/csv' } },
  errors: ['not_found'],
  async handle({ services, organisationId, query, ctx }) {
    const { rows, span } = await readGroups(services, organisationId, query, maxExported)
    const names = namesIn(query)
    const named = names.flatMap((name, i) => (name === 'key' || name === 'member' ? [[`${name}_id`, i] as const] : []))
    const lines = rows.slice(0, maxExported).map(({ start, end: _, groups, before, ...sums }) => ({
      start,
      ...Object.fromEntries(names.map((name, i) => [name, groups[i]!.name])),
      ...sums,
      ...(query.granularity === undefined && {
        requests_before: before?.requests ?? null,
        cost_usd_before: before?.cost_usd ?? null,
      }),
      // Names change and may be equal; ids do not.
      ...Object.fromEntries(named.map(([name, i]) => [name, groups[i]!.id])),
    }))
    const file = await exportName(services.db, organisationId, 'usage', ...daysOf(span))
    ctx.set({ 'content-type': 'text/csv; charset=utf-8', 'content-disposition': `attachment; filename="${file}.csv"` })
    ctx.body = usageCsv(lines, names)
  },
})

const jsonFile = endpoint({
  ...shared,
  method: 'get',
  path: `${base}/usage/groups.jsonl`,
  summary: 'Export usage by up to two properties as JSON Lines',
  query: groupsQuery,
  answers: { 200: { description: `At most ${maxExported} rows.`, contentType: 'application/jsonl' } },
  errors: ['not_found'],
  async handle({ services, organisationId, query, ctx }) {
    const { rows, span } = await readGroups(services, organisationId, query, maxExported)
    const names = namesIn(query)
    const lines = rows.slice(0, maxExported).map(({ start, end, groups, ...sums }) => {
      const named = Object.fromEntries(names.map((name, i) => [name, groups[i]]))
      return `${JSON.stringify({ start, end, ...named, ...sums })}\n`
    })
    const file = await exportName(services.db, organisationId, 'usage', ...daysOf(span))
    ctx.set({ 'content-type': 'application/jsonl', 'content-disposition': `attachment; filename="${file}.jsonl"` })
    ctx.body = lines.join('')
  },
})

const namesIn = ({ by, then_by: thenBy }: GroupsQuery) => (thenBy === undefined ? [by] : [by, thenBy])

/** Reads the groups of a query, one more than `max` if there are more, and their total. Throws 400, 404. */
async function readGroups(
  services: Platform,
  organisationId: string,
  query: GroupsQuery,
  max: number,
): Promise<{ span: Span } & Pick<UsageGroups, 'environment' | 'rows' | 'total' | 'before'>> {
  const { by, then_by: thenBy } = query
  if (by === thenBy) throw new GatewayError('invalid_request', '`then_by` must differ from `by`.', { param: 'then_by' })
  const names = namesIn(query)
  const isWhole = query.granularity === undefined
  const span = inPeriods(readSpan(query, services.clock.now()), query.granularity)
  const { filter, environment } = await readUsageFilter(services, organisationId, query, span)
  const source = sourceOf(names, span, query.tag, span.source)
  const grouping = { step: isWhole ? null : span.step, source, by: names, limit: max + 1 }
  const { sums, total, earlier } = await runSearch(services.db, usageBound, async tx => {
    const read = await sumUsage(tx, filter, { ...grouping, order: isWhole ? 'cost' : 'latest' })
    const past = isWhole ? await readEarlier(tx, { ...filter, ...span.before }, { ...grouping, order: 'cost' }) : null
    return { sums: read.rows, total: read.total, earlier: past }
  })
  const nameOf = await Promise.all(
    names.map((name, i) => namesOf(services, name, [...new Set(sums.map(sum => sum.groups[i]!))])),
  )
  const rows = sums.map(sum => ({
    start: sum.start?.toISOString() ?? null,
    end: sum.start && endOf(span, sum.start.getTime()).toISOString(),
    groups: sum.groups.map((id, i) => ({ id, name: nameOf[i]!(id) })),
    ...presentSums(sum),
    before: earlier?.of(sum.groups) ?? null,
  }))
  return { span, environment, rows, total: presentSums(total ?? zeroUsage), before: earlier?.total ?? null }
}

/** The end of the period that starts at a time. */
function endOf({ times, to }: Span, startMs: number): Date {
  const next = times[times.indexOf(startMs) + 1]
  return next === undefined ? to : new Date(next)
}

/** What groups used before. That of a group which is not among the largest is unknown. */
async function readEarlier(tx: Connection, filter: UsageFilter, grouping: UsageGrouping) {
  const { rows, total } = await sumUsage(tx, filter, { ...grouping, durations: false, limit: maxExported })
  const present = ({ requests, costNano } = zeroUsage): UsageBefore => ({ requests, cost_usd: usdFromNano(costNano) })
  const byGroups = new Map(rows.map(sum => [JSON.stringify(sum.groups), present(sum)]))
  const others = rows.length < maxExported ? present() : null
  return {
    of: (groups: readonly string[]) => byGroups.get(JSON.stringify(groups)) ?? others,
    total: present(total ?? zeroUsage),
  }
}

export const usageGroupRoutes = [groups, csvFile, jsonFile]
