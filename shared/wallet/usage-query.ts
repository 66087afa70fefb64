import { Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import { type BucketSource, bucketsIn, durationMeasures, type Grouped, percentilesOf } from './durations.ts'
import { type Outcome, outcomes } from './usage-hours.ts'
import {
  columnOf,
  type Dimension,
  type Step,
  starts,
  tableOf,
  type UsageFilter,
  type UsageSource,
  whereOf,
  withMembers,
} from './usage-source.ts'

export type UsageGrouping = {
  /** Null: the whole time is one period. */
  step: Step | null
  source: UsageSource
  by: readonly Dimension[]
  order: 'time' | 'latest' | 'cost' | 'errors'
  /** Whether to read the percentiles, which takes most of the time. Default: true. */
  durations?: boolean
  limit: number
  offset?: number
}

/** The sums of one period and group. Durations: durations.ts. */
export type UsageSum = {
  start: Date | null
  /** The values of `by`; '' = none. */
  groups: string[]
  requests: number
  outcomes: Record<Outcome, number>
  costNano: bigint
  /** What providers charge for it, and the part of `costNano` of which that is known. */
  providerCostNano: bigint
  knownCostNano: bigint
  promptTokens: number
  completionTokens: number
  cachedTokens: number
  reasoningTokens: number
  /** What the providers' caches saved of the cost. */
  cacheDiscountNano: bigint
  latency: Percentiles
  /** Of requests that were streamed. */
  firstToken: Percentiles
}

export type Percentiles = { p50Ms: number | null; p95Ms: number | null }

type Row = Record<Outcome, bigint> & {
  start: Date | null
  groups: (string | null)[] | null
  is_total: boolean
  requests: bigint
  cost: bigint
  provider_cost: bigint
  known_cost: bigint
  prompt: bigint
  completion: bigint
  cached: bigint
  reasoning: bigint
  cache_discount: bigint
  latency_p50: number | null
  latency_p95: number | null
  first_token_p50: number | null
  first_token_p95: number | null
}

const list = (names: readonly string[], of: (name: string) => string = name => name) =>
  Prisma.raw(names.map(of).join(', '))

const summed = list(
  [
    'requests',
    'cost_nano',
    'known_cost_nano',
    'provider_cost_nano',
    'prompt_tokens',
    'completion_tokens',
    'cached_tokens',
    'reasoning_tokens',
    'cache_discount_nano',
  ],
  name => `sum(${name})::bigint AS ${name}`,
)

/**
 * Sums hours by period, group and outcome, in the shape of `usage_hours`. What is counted for some outcomes alone is then decided for a few
 * sums instead of each of 100,000 rows, which takes a third of the time.
 */
function preSummed(used: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`SELECT start, groups, outcome, ${summed} FROM ${used} GROUP BY start, groups, outcome`
}

/** SQL: the percentiles by period and group, and in total, one row each. */
function percentilesIn(used: Prisma.Sql, by: Grouped, source: BucketSource): Prisma.Sql {
  const buckets = bucketsIn(used, by, source)
  const percentiles = percentilesOf(buckets, Prisma.sql`is_total, start, groups`, {
    select: Prisma.sql`GROUPING(groups) = 1 AS is_total, start, groups`,
    sets: Prisma.sql`GROUPING SETS ((start, groups), ())`,
  })
  const columns = durationMeasures.flatMap(measure =>
    ['p50', 'p95'].map(name => `max(${name}) FILTER (WHERE measure = '${measure}') AS ${measure}_${name}`),
  )
  return Prisma.sql`
    SELECT is_total, start, groups, ${list(columns)} FROM (${percentiles}) p GROUP BY is_total, start, groups`
}

/** Whether usage is that of all requests of an environment. */
function isOfAll(filter: UsageFilter, by: readonly Dimension[]): boolean {
  const { keyId, memberId, model, provider, type, outcomes: among } = filter
  return by.length === 0 && [keyId, memberId, model, provider, type, among].every(value => value === undefined)
}

const sumNames = [
  ...['requests', ...outcomes, 'cost', 'provider_cost', 'known_cost'],
  ...['prompt', 'completion', 'cached', 'reasoning', 'cache_discount'],
]
const percentileNames = durationMeasures.flatMap(measure => [`${measure}_p50`, `${measure}_p95`])

/**
 * SQL: sums with their percentiles, by period and group. They are grouped, not joined: for lack of statistics PostgreSQL may expect few
 * groups, and a join then compares each with all others.
 */
const sumsWithPercentiles = Prisma.sql`
  SELECT is_total, start, groups, ${list([...sumNames, ...percentileNames], name => `max(${name}) AS ${name}`)}
  FROM (
    SELECT is_total, start, groups, ${list(sumNames)}, ${list(percentileNames, () => 'NULL::float8')} FROM sums
    UNION ALL
    SELECT is_total, start, groups, ${list(sumNames, () => 'NULL::bigint')}, ${list(percentileNames)} FROM durations
  ) parts(is_total, start, groups, ${list([...sumNames, ...percentileNames])})
  GROUP BY is_total, start, groups HAVING max(requests) IS NOT NULL`

const noPercentiles = Prisma.sql`
  SELECT NULL::boolean AS is_total, NULL::timestamptz AS start, NULL::text[] AS groups,
    ${list(percentileNames, name => `NULL::float8 AS ${name}`)} LIMIT 0`

const orders = {
  time: Prisma.sql`s.start, s.groups`,
  latest: Prisma.sql`s.start DESC, cost DESC, requests DESC, s.groups`,
  cost: Prisma.sql`cost DESC, requests DESC, s.groups, s.start`,
  errors: Prisma.sql`requests - ok - cancelled DESC, requests DESC, s.groups, s.start`,
}

/**
 * Sums the usage of an organisation by period and group, and in total. Periods and groups without requests are omitted; the
 * total is not limited, and is null without requests.
 */
export async function sumUsage(
  db: Connection,
  filter: UsageFilter,
  { step, source, by, order, durations = true, limit, offset = 0 }: UsageGrouping,
): Promise<{ rows: UsageSum[]; total: UsageSum | null }> {
  const start = step === null ? null : starts[step]
  const groups =
    by.length > 0 ? Prisma.sql`ARRAY[${Prisma.join(by.map(name => columnOf(name, filter)))}]` : Prisma.sql`'{}'::text[]`
  const counts = outcomes.map(
    name => Prisma.sql`coalesce(sum(u.requests) FILTER (WHERE u.outcome = ${name}), 0)::bigint AS ${Prisma.raw(name)}`,
  )
  const grouped: Grouped = {
    columns: Prisma.sql`start, groups`,
    withColumns: table => Prisma.sql`
      SELECT u.*, ${start ?? Prisma.sql`NULL::timestamptz`} AS start, ${groups} AS groups FROM ${withMembers(table, by)}`,
  }
  const used = Prisma.sql`${grouped.withColumns(tableOf(source, filter, step))} WHERE ${whereOf(filter, start)}`
  const all = Prisma.raw('used')
  const found = await db.$queryRaw<Row[]>`
    WITH used AS NOT MATERIALIZED (${used}), sums AS (
      SELECT start, groups, GROUPING(groups) = 1 AS is_total, sum(requests)::bigint AS requests, ${Prisma.join(counts)},
        sum(cost_nano)::bigint AS cost, coalesce(sum(provider_cost_nano), 0)::bigint AS provider_cost,
        coalesce(sum(known_cost_nano), 0)::bigint AS known_cost, sum(prompt_tokens)::bigint AS prompt, sum(completion_tokens)::bigint AS completion,
        sum(cached_tokens)::bigint AS cached, sum(reasoning_tokens)::bigint AS reasoning,
        sum(cache_discount_nano)::bigint AS cache_discount
      FROM ${source === 'hours' ? Prisma.sql`(${preSummed(all)})` : all} u
      GROUP BY GROUPING SETS ((start, groups), ()) HAVING sum(requests) <> 0 OR sum(cost_nano) <> 0
    ), durations AS (${durations ? percentilesIn(all, grouped, source === 'hours' && isOfAll(filter, by) ? 'all' : source) : noPercentiles})
    SELECT * FROM (${sumsWithPercentiles}) s
    ORDER BY s.is_total DESC, ${orders[order]}
    LIMIT ${limit + 1} OFFSET ${offset === 0 ? 0 : offset + 1}`
  const total = found.find(row => row.is_total)
  return {
    rows: found
      .filter(row => !row.is_total)
      .slice(0, limit)
      .map(sumOf),
    total: total ? sumOf(total) : null,
  }
}

function sumOf({ start, groups, requests, cost, ...row }: Row): UsageSum {
  return {
    start,
    groups: (groups ?? []).map(name => name ?? ''),
    requests: Number(requests),
    outcomes: Object.fromEntries(outcomes.map(name => [name, Number(row[name])])) as Record<Outcome, number>,
    costNano: cost,
    providerCostNano: row.provider_cost,
    knownCostNano: row.known_cost,
    promptTokens: Number(row.prompt),
    completionTokens: Number(row.completion),
    cachedTokens: Number(row.cached),
    reasoningTokens: Number(row.reasoning),
    cacheDiscountNano: row.cache_discount,
    latency: { p50Ms: row.latency_p50, p95Ms: row.latency_p95 },
    firstToken: { p50Ms: row.first_token_p50, p95Ms: row.first_token_p95 },
  }
}
