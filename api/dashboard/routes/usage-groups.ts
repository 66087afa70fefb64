import { z } from 'zod'
import { GatewayError } from '../../../shared/base/errors.ts'
import { usdFromNano } from '../../../shared/base/money.ts'
import { dayMs } from '../../../shared/base/time.ts'
import type { LedgerKind } from '../../../shared/generated/prisma/client.ts'
import type { Connection } from '../../../shared/io/db.ts'
import type { Platform } from '../../../shared/platform.ts'
import { sumUsage, type UsageGrouping, type UsageSum } from '../../../shared/wallet/usage-query.ts'
import { type Dimension, dimensions, type UsageFilter } from '../../../shared/wallet/usage-source.ts'
import { endpoint } from '../../endpoint.ts'
import { presentSums, usageCsv } from '../../routes/usage.ts'
import { runSearch } from '../queries/run-search.ts'
import { granularity, inPeriods, readSpan, type Span } from '../queries/span.ts'
import { readUsageFilter, sourceOf, usageBound, usageFields } from '../queries/usage-filter.ts'
import { namesOf } from '../queries/usage-names.ts'
import { daysOf, exportName } from '../row-export.ts'
import type { UsageBefore, UsageGroups, UsageRest, UsageRow } from '../wire/usage.ts'
import { noPercentiles, presentPeriods, zeroUsage } from './activity.ts'

const base = '/dashboard/api/organisations/{organisation}'
const shared = { tag: 'Dashboard', access: { permission: 'view_money' } } as const
const maxGroups = 50
/** Rows by period are not ranked, so a page has them all. */
const maxPeriodRows = 1_000
const maxExported = 10_000

const groupsQuery = z.strictObject({
  ...usageFields,
  by: z
    .enum([...dimensions, 'none'])
    .default('key')
    .describe('`none`: only by period, which needs `granularity`.'),
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
    'Without `granularity`, one row per group, the most expensive first, with its usage in the time before. With it, one row per period and group, the latest first. `other` is the exact sum of what has no row.',
  query: groupsQuery,
  answers: {
    200: { description: `The first ${maxGroups} groups, or ${maxPeriodRows} rows of periods, and the total.` },
  },
  errors: ['not_found'],
  async handle({ services, organisationId, query }): Promise<UsageGroups> {
    const max = query.granularity === undefined ? maxGroups : maxPeriodRows
    const { span, ...groups } = await readGroups(services, organisationId, query, max)
    const { from, to } = presentPeriods(span, groups.environment)
    return { from, to, ...groups }
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
    const { span, ...groups } = await readGroups(services, organisationId, query, maxExported)
    const names = namesIn(query)
    const named = names.flatMap((name, i) => (name === 'key' || name === 'member' ? [[`${name}_id`, i] as const] : []))
    const lines = withOther(groups, names).map(({ start, end: _, groups, before, ...sums }) => ({
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
    const { span, ...groups } = await readGroups(services, organisationId, query, maxExported)
    const names = namesIn(query)
    const lines = withOther(groups, names).map(({ start, end, groups, ...sums }) => {
      const named = Object.fromEntries(names.map((name, i) => [name, groups[i]]))
      return `${JSON.stringify({ start, end, ...named, ...sums })}\n`
    })
    const file = await exportName(services.db, organisationId, 'usage', ...daysOf(span))
    ctx.set({ 'content-type': 'application/jsonl', 'content-disposition': `attachment; filename="${file}.jsonl"` })
    ctx.body = lines.join('')
  },
})

function namesIn({ by, then_by: thenBy }: GroupsQuery): Dimension[] {
  return [by, thenBy].filter(name => name !== undefined && name !== 'none') as Dimension[]
}

/** The rows of a file, which add up to the total. */
function withOther({ rows, other }: Pick<UsageGroups, 'rows' | 'other'>, names: readonly Dimension[]): UsageRow[] {
  const groups = names.map(() => ({ id: '', name: 'Other' }))
  return other ? [...rows, { start: null, end: null, groups, ...other }] : rows
}

type ReadGroups = Omit<UsageGroups, 'from' | 'to'> & { span: Span }

/** Reads the first `max` groups of a query, the sum of the others, and their total. Throws 400, 404. */
async function readGroups(
  services: Platform,
  organisationId: string,
  query: GroupsQuery,
  max: number,
): Promise<ReadGroups> {
  assertGroups(query)
  const names = namesIn(query)
  const isWhole = query.granularity === undefined
  const nowMs = services.clock.now()
  const span = inPeriods(readSpan(query, nowMs), query.granularity)
  const { filter, environment } = await readUsageFilter(services, organisationId, query, span)
  const source = sourceOf(names, span, query.tag, span.source)
  const grouping = { step: isWhole ? null : span.step, source, by: names, limit: max }
  const { sums, total, earlier } = await runSearch(services.db, usageBound, organisationId, async tx => {
    const read = await sumUsage(tx, filter, { ...grouping, order: isWhole ? 'cost' : 'latest' })
    const past = isWhole ? await readEarlier(tx, { ...filter, ...span.before }, { ...grouping, order: 'cost' }) : null
    return { sums: read.rows, total: read.total ?? zeroUsage, earlier: past }
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
  return {
    span,
    environment,
    rows,
    other: otherOf(sums, total, rows, earlier?.total ?? null),
    total: presentSums(total),
    before: earlier?.total ?? null,
    statement_usd: await readStatementUsd(services.db, filter, nowMs),
  }
}

function assertGroups({ by, then_by: thenBy, granularity: period }: GroupsQuery): void {
  if (by === thenBy) throw new GatewayError('invalid_request', '`then_by` must differ from `by`.', { param: 'then_by' })
  if (by !== 'none' || period !== undefined) return
  throw new GatewayError('missing_field', '`by=none` needs `granularity`.', { param: 'granularity' })
}

/** The total less the sums that have a row; null if that is nothing. */
function otherOf(
  sums: readonly UsageSum[],
  total: UsageSum,
  rows: readonly { before: UsageBefore | null }[],
  before: UsageBefore | null,
): UsageRest | null {
  const rest = sums.reduce(subtractUsage, total)
  if (rest.requests === 0 && rest.costNano === 0n) return null
  const isKnown = before !== null && rows.every(row => row.before !== null)
  const sumOf = (name: keyof UsageBefore) => rows.reduce((sum, row) => sum - row.before![name], before![name])
  const earlier = isKnown ? { requests: sumOf('requests'), cost_usd: Number(sumOf('cost_usd').toFixed(9)) } : null
  return { ...presentSums(rest), before: earlier }
}

/** Percentiles of a difference are unknown. */
function subtractUsage(whole: UsageSum, part: UsageSum): UsageSum {
  const outcomes = { ...whole.outcomes }
  for (const name of Object.keys(outcomes) as (keyof typeof outcomes)[]) outcomes[name] -= part.outcomes[name]
  return {
    start: null,
    groups: [],
    latency: noPercentiles,
    firstToken: noPercentiles,
    outcomes,
    requests: whole.requests - part.requests,
    costNano: whole.costNano - part.costNano,
    providerCostNano: whole.providerCostNano - part.providerCostNano,
    knownCostNano: whole.knownCostNano - part.knownCostNano,
    promptTokens: whole.promptTokens - part.promptTokens,
    completionTokens: whole.completionTokens - part.completionTokens,
    cachedTokens: whole.cachedTokens - part.cachedTokens,
    reasoningTokens: whole.reasoningTokens - part.reasoningTokens,
    cacheDiscountNano: whole.cacheDiscountNano - part.cacheDiscountNano,
  }
}

/** What the statement of the filter's days charges, less refunds; null if the filter is not of whole days, or leaves out charges. */
async function readStatementUsd(db: Connection, filter: UsageFilter, nowMs: number): Promise<number | null> {
  const { organisationId, from, to, environment, keyId, memberId, model, provider, type, outcomes: among } = filter
  const isWhole = (time: Date) => time.getTime() % dayMs === 0
  const isOfDays = isWhole(from) && (isWhole(to) || to.getTime() > nowMs)
  const isOfAll = [keyId, memberId, model, provider, type, among].every(value => value === undefined)
  if (!isOfDays || !isOfAll || environment === 'test' || organisationId === null) return null
  // As dates, which have no time of day: the last one is part of it.
  const day = { gte: from, lte: new Date(to.getTime() - 1) }
  const where = { organisationId, day, kind: { in: ['charge', 'excess', 'refund'] satisfies LedgerKind[] } }
  const { _sum: sum } = await db.ledgerDay.aggregate({ where, _sum: { amountNano: true } })
  return usdFromNano(-(sum.amountNano ?? 0n))
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
