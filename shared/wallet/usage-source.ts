import { dayMs, hourMs } from '../base/time.ts'
import { Prisma } from '../generated/prisma/client.ts'
import { sketchesOfLog, timesOfLog } from './durations.ts'
import type { Outcome } from './usage-hours.ts'

/** Where usage is summed from: tables in the shape of `usage_hours`, as SQL, and their conditions. */

const ofHours = ['key', 'member', 'model', 'provider', 'type', 'environment', 'outcome'] as const
/** What only the request log knows: any value that callers send. */
const ofLog = ['end_user', 'tag'] as const
export const dimensions = [...ofHours, ...ofLog] as const
export type Dimension = (typeof dimensions)[number] | 'organisation'
export const steps = ['5m', 'hour', '4h', 'day', 'week', 'month'] as const
/** Whether usage by a dimension is summed from the request log. */
export function isOfLog(name: Dimension): boolean {
  return (ofLog as readonly Dimension[]).includes(name)
}

/** The length of a period. Days, weeks (from Monday) and months are UTC. */
export type Step = (typeof steps)[number]

/** `log`: the request log itself, which knows more than the sums by hour and day but is slow to sum up over long times. */
export type UsageSource = 'hours' | 'log'

export type UsageFilter = {
  /** Null: all organisations, for operators. */
  organisationId: string | null
  /** The first period is the one that contains it. */
  from: Date
  /** Whether to count from `from` on only, and to `to`, within an hour too. Of one organisation. */
  isExact?: boolean
  /** Exclusive. */
  to: Date
  environment?: 'live' | 'test' | undefined
  keyId?: string | undefined
  /** The keys that this person created. */
  memberId?: string | undefined
  model?: string | undefined
  provider?: string | undefined
  type?: string | undefined
  outcomes?: readonly Outcome[] | undefined
  /** The name of the tag that `tag` groups by. */
  tag?: string | undefined
}

const columns: Record<Exclude<Dimension, 'tag'>, Prisma.Sql> = {
  key: Prisma.sql`u.key_id`,
  member: Prisma.sql`k.created_by_id`,
  model: Prisma.sql`u.model`,
  provider: Prisma.sql`u.provider`,
  type: Prisma.sql`u.kind`,
  environment: Prisma.sql`u.environment::text`,
  outcome: Prisma.sql`u.outcome`,
  end_user: Prisma.sql`u.end_user`,
  organisation: Prisma.sql`u.organisation_id`,
}

/** SQL: the value of a dimension. */
export function columnOf(name: Dimension, { tag = '' }: UsageFilter): Prisma.Sql {
  return name === 'tag' ? Prisma.sql`u.metadata ->> ${tag}::text` : columns[name]
}

/** SQL: the start of the period of an hour. */
export const starts: Record<Step, Prisma.Sql> = {
  '5m': binned('5 minutes'),
  hour: truncated('hour'),
  '4h': binned('4 hours'),
  day: truncated('day'),
  week: truncated('week'),
  month: truncated('month'),
}

function binned(length: string): Prisma.Sql {
  return Prisma.sql`date_bin(${Prisma.raw(`'${length}'`)}::interval, u.hour, '2000-01-01 00:00Z')`
}

function truncated(unit: string): Prisma.Sql {
  return Prisma.sql`date_trunc(${Prisma.raw(`'${unit}'`)}, u.hour, 'UTC')`
}

/** The columns that all sources have. `hour`: the start of the hour or day; of a request, its own time. */
const groups = Prisma.sql`key_id, model, kind, environment`
const hourly = Prisma.sql`
  organisation_id, hour, ${groups}, provider, outcome, requests, cost_nano, provider_cost_nano,
  CASE WHEN provider_cost_nano IS NOT NULL THEN cost_nano END AS known_cost_nano, prompt_tokens, completion_tokens, cached_tokens,
  reasoning_tokens, cache_discount_nano, latency_sketch, first_token_sketch, 1 AS hours`
const daily = Prisma.sql`
  organisation_id, day::timestamp AT TIME ZONE 'UTC' AS hour, ${groups}, provider, outcome, requests, cost_nano, provider_cost_nano,
  known_cost_nano, prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens, cache_discount_nano, latency_sketch, first_token_sketch,
  24 AS hours`
const ofRequest = Prisma.sql`
  organisation_id, created_at AS hour, ${groups}, coalesce(provider, '') AS provider, outcome_of(status) AS outcome,
  calls::bigint AS requests, cost_nano, provider_cost(cost_nano, margin_ppm) AS provider_cost_nano,
  CASE WHEN provider_cost(cost_nano, margin_ppm) IS NOT NULL THEN cost_nano END AS known_cost_nano,
  prompt_tokens::bigint AS prompt_tokens, completion_tokens::bigint AS completion_tokens, cached_tokens::bigint AS cached_tokens,
  reasoning_tokens::bigint AS reasoning_tokens, coalesce(cache_discount_nano, 0) AS cache_discount_nano`
const logged = Prisma.sql`${ofRequest}, ${timesOfLog}, end_user, metadata`

/** A request in the shape of an hour. */
const requestsAsHours = Prisma.sql`${ofRequest}, ${sketchesOfLog}, 0 AS hours`

/** The request log. That of all organisations is read by organisation, since it is indexed so; hours tell which were active. */
function logOf(step: Step | null, { organisationId, from, to }: UsageFilter): Prisma.Sql {
  if (organisationId !== null) return Prisma.sql`(SELECT ${logged} FROM generations)`
  const start = step === null ? Prisma.sql`${from}::timestamptz` : startOf(starts[step], from)
  const first = Prisma.sql`date_trunc('hour', ${start}, 'UTC')`
  return Prisma.sql`(
    SELECT one.* FROM (SELECT DISTINCT organisation_id AS id FROM usage_hours WHERE hour >= ${first} AND hour < ${to}) active,
      LATERAL (
        SELECT ${logged} FROM generations
        WHERE organisation_id = active.id AND created_at >= ${first} AND created_at < ${to} OFFSET 0
      ) one)`
}

/** The sums by hour and day; what they do not have of an exact time, the parts of hours at its ends, is read from the log. */
function sumsOf(step: Step | null, { from, to, isExact = false }: UsageFilter): Prisma.Sql {
  if (!isExact) return Prisma.sql`(${wholeHours(step, { from, to })})`
  const firstMs = Math.ceil(from.getTime() / hourMs) * hourMs
  const lastMs = Math.floor(to.getTime() / hourMs) * hourMs
  const [first, last] = [new Date(firstMs), new Date(lastMs)]
  const logOfTime = (since: Date, until: Date) =>
    Prisma.sql`SELECT ${requestsAsHours} FROM generations WHERE created_at >= ${since} AND created_at < ${until}`
  if (lastMs <= firstMs) return Prisma.sql`(${logOfTime(from, to)})`
  const hours = wholeHours(isOfDays(step) ? null : step, { from: first, to: last })
  return Prisma.sql`(
    ${logOfTime(from, first)} UNION ALL SELECT * FROM (${hours}) whole WHERE hour >= ${first} AND hour < ${last}
    UNION ALL ${logOfTime(last, to)})`
}

/**
 * The sums by hour. In periods of whole days, the days that lie within the time are read from the sums by day, an eighth of the rows, and hours
 * only for what is before and after them.
 */
function wholeHours(step: Step | null, { from, to }: Pick<UsageFilter, 'from' | 'to'>): Prisma.Sql {
  const hours = Prisma.sql`SELECT ${hourly} FROM usage_hours`
  const firstDayMs = Math.ceil(from.getTime() / dayMs) * dayMs
  const lastDayMs = Math.floor(to.getTime() / dayMs) * dayMs
  if (!isOfDays(step) || lastDayMs <= firstDayMs) return hours
  const first = step === null ? new Date(firstDayMs) : startOf(starts[step], from)
  const [firstDay, lastDay] = [Prisma.sql`${first}::timestamptz`, Prisma.sql`${new Date(lastDayMs)}::timestamptz`]
  const dateOf = (time: Prisma.Sql) => Prisma.sql`(${time} AT TIME ZONE 'UTC')::date`
  return Prisma.sql`
    SELECT ${daily} FROM usage_day_details WHERE day >= ${dateOf(firstDay)} AND day < ${dateOf(lastDay)}
    UNION ALL ${hours} WHERE hour >= ${from} AND hour < ${firstDay}
    UNION ALL ${hours} WHERE hour >= ${lastDay}`
}

/** Whether every period begins with a day, but for the first one’s beginning if it is the whole time. */
function isOfDays(step: Step | null): step is 'day' | 'week' | 'month' | null {
  return step === null || step === 'day' || step === 'week' || step === 'month'
}

/** SQL: the table of a source. */
export function tableOf(source: UsageSource, filter: UsageFilter, step: Step | null): Prisma.Sql {
  return source === 'log' ? logOf(step, filter) : sumsOf(step, filter)
}

/** SQL: a table of a source as `u`, with the keys as `k` where members are asked for. */
export function withMembers(table: Prisma.Sql, by: readonly Dimension[]): Prisma.Sql {
  return by.includes('member') ? Prisma.sql`${table} u LEFT JOIN api_keys k ON k.id = u.key_id` : Prisma.sql`${table} u`
}

/** SQL: the start of the period in which a time is. */
function startOf(start: Prisma.Sql, time: Date): Prisma.Sql {
  return Prisma.sql`(SELECT ${start} FROM (SELECT ${time}::timestamptz AS hour) u)`
}

/** SQL: the condition of a filter on `u`; `start`: from the beginning of the period. */
export function whereOf(
  { organisationId, from, to, isExact, ...wanted }: UsageFilter,
  start: Prisma.Sql | null,
): Prisma.Sql {
  const { environment, keyId, memberId, model, provider, type, outcomes } = wanted
  const first = start && !isExact ? startOf(start, from) : Prisma.sql`${from}`
  const parts = [Prisma.sql`u.hour >= ${first} AND u.hour < ${to}`]
  if (organisationId !== null) parts.push(Prisma.sql`u.organisation_id = ${organisationId}`)
  if (environment !== undefined) parts.push(Prisma.sql`u.environment = ${environment}::environment`)
  if (keyId !== undefined) parts.push(Prisma.sql`u.key_id = ${keyId}`)
  if (memberId !== undefined)
    parts.push(Prisma.sql`u.key_id IN (SELECT id FROM api_keys WHERE ${keysOf(memberId, organisationId)})`)
  if (model !== undefined) parts.push(Prisma.sql`u.model = ${model}`)
  if (provider !== undefined) parts.push(Prisma.sql`u.provider = ${provider}`)
  if (type !== undefined) parts.push(Prisma.sql`u.kind = ${type}`)
  if (outcomes !== undefined) parts.push(Prisma.sql`u.outcome = ANY(${[...outcomes]})`)
  return Prisma.join(parts, ' AND ')
}

function keysOf(memberId: string, organisationId: string | null): Prisma.Sql {
  const isTheirs = Prisma.sql`created_by_id = ${memberId}`
  return organisationId === null ? isTheirs : Prisma.sql`organisation_id = ${organisationId} AND ${isTheirs}`
}
