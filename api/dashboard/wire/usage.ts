import type { Environment } from './keys.ts'

/** Types shared by the Overview and Usage pages and their routes. Days are UTC. */

/** Requests counted on the days so far. */
export type UsageFigures = { spend_usd: number; requests: number; errors: number; tokens: number }

/** GET /dashboard/api/organisations/{organisation}/overview */
export type Overview = {
  wallet: {
    balance_usd: number
    available_usd: number
    reserved_usd: number
    held_usd: number
    /** When the next part of the held amount becomes available. */
    held_release_at: string | null
  }
  /**
   * `is_low`: the available amount is below the organisation's threshold; always false for a wallet that was never
   * funded.
   */
  low_balance: { threshold_usd: number | null; is_low: boolean }
  today: UsageFigures
  month: UsageFigures
  /** Onboarding steps of a new organisation, each done or not. */
  first_steps: { email_verified: boolean; key_created: boolean; request_made: boolean; credits_added: boolean }
}

/** The periods of a chart: their starts, and their length. */
export type Periods = { from: string; to: string; times: string[]; step_ms: number; environment: UsageEnvironment }
export type UsageEnvironment = Environment | 'all'

export type OutcomeCounts = {
  ok: number
  cancelled: number
  rate_limited: number
  refused: number
  invalid: number
  failed: number
}

/** The figures of some time. Durations are those of successful requests, without queued work and sessions. */
export type Sums = OutcomeCounts & {
  requests: number
  cost_usd: number
  /** What providers' caches saved; negative where writing to them cost more. */
  cache_discount_usd: number
  prompt_tokens: number
  cached_tokens: number
  completion_tokens: number
  reasoning_tokens: number
  latency_p50_ms: number | null
  latency_p95_ms: number | null
  /** Until the first token of those that were streamed. */
  first_byte_p50_ms: number | null
  first_byte_p95_ms: number | null
}

/** GET …/activity: `values` has one entry per period, null without requests; `before`: the time of the same length before. */
export type Activity = Periods & { values: (Sums | null)[]; total: Sums; before: Sums }

export type UsageMeasure = 'cost' | 'requests' | 'errors' | 'tokens'

/** The amounts of one model, key … by period; `id` is null for the sum of all others. */
export type UsageSeries = { id: string | null; name: string; values: number[]; total: number }

/** GET …/usage: USD, requests or tokens by period, the largest series first. */
export type UsageChart = Periods & { series: UsageSeries[]; total: number }

/** The value of a group: its id for filters ('' = none), and its name. */
export type UsageGroup = { id: string; name: string }

/** What a group used in the time of the same length before. */
export type UsageBefore = { requests: number; cost_usd: number }

/** A row of …/usage/groups: `start` and `end` are those of its period, null if that is the whole time; only then is `before` known. */
export type UsageRow = Sums & {
  start: string | null
  end: string | null
  groups: UsageGroup[]
  before: UsageBefore | null
}

/** GET …/usage/groups: one row per group, the most expensive first; or per period and group, the latest first. */
export type UsageGroups = Pick<Periods, 'from' | 'to' | 'environment'> & {
  rows: UsageRow[]
  /** What is in none of the rows: with them it is exactly the total. Null: nothing. */
  other: UsageRest | null
  total: Sums
  before: UsageBefore | null
  /** The usage in the statement of the same days; null unless these are whole days of everything that is charged. */
  statement_usd: number | null
}

/** The sum of the groups that have no row. Percentiles of a sum are unknown. */
export type UsageRest = Sums & { before: UsageBefore | null }

/**
 * Calls failed for some time: `provider` is '' if none was available; `from` and `to`: the first and the last failure, null while calls
 * fail.
 */
export type OutageNotice = {
  kind: 'failing'
  provider: string
  from: string
  to: string | null
  failed: number
  requests: number
}

/** A problem that needs attention. `rate_limited`: in the last hour. */
export type Notice =
  | OutageNotice
  | { kind: 'rate_limited'; key: UsageGroup; refused: number; requests: number }
  | { kind: 'key_cap'; key: UsageGroup; spent_usd: number; cap_usd: number }
  | { kind: 'key_expiry'; key: UsageGroup; at: string }
  | { kind: 'webhook'; url: string; failed: number; since: string }
  | { kind: 'credits'; days: number; per_day_usd: number }

/** GET …/attention: what is so now, and the outages of the time that are over, newest first. */
export type Attention = { notices: Notice[]; over: OutageNotice[] }
