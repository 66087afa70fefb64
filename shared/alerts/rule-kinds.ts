/**
 * The kinds of alert rules: what each measures, in which terms, and how alerts and the dashboard's form put it. A new kind is
 * added here, and its row in docs/webhooks.md. The dashboard's pages load this file too: it has no I/O.
 */

import { formatCents, type Nano, nanoFromUsd, usdFromNano } from '../base/money.ts'
import { quoteName } from '../base/quote-name.ts'
import { dayMs } from '../base/time.ts'
import type { DurationMeasure } from '../wallet/durations.ts'

const minutes = ['5m', '15m', '1h', '24h'] as const
const periods = ['day', 'week', 'month'] as const
export const windows = [...minutes, ...periods] as const
export type Window = (typeof windows)[number]

/** Whether a window begins with a UTC day, week or month, and does not move with the time. */
export function isPeriod(window: string | null): boolean {
  return (periods as readonly (string | null)[]).includes(window)
}

/** The figures of one key, model and environment. */
export type Group = {
  keyId: string
  model: string
  environment: string
  requests: bigint
  errors: bigint
  cost: Nano
}
type KeyTimes = { expiresAt: Date | null; lastUsedAt: Date | null; createdAt: Date }

/** What an alert says, besides its rule's name and kind. */
export type AlertFacts = {
  rule: { threshold: number; window: Window | null }
  scope: { key: string | null; model: string | null; environment: 'live' | 'test' }
  /** The key (by its hash) or the endpoint that it is about; null for requests. */
  subject: { id: string; name: string } | null
  /** In the unit of the threshold; null if nothing could be measured. */
  value: number | null
  since: string
  /** When the first measured request was sent at the earliest; null for keys. */
  measured_from: string | null
  resolved_at: string | null
}

type Unit = 'usd' | 'percent' | 'ms' | 'days'
type Texts = {
  /** "The error rate over the last hour is 7.5%; the threshold is 5%". */
  raised(facts: AlertFacts): string
  /** "the error rate over the last hour is below 5%". */
  resolved(facts: AlertFacts): string
  /** The page of what it is about, below the organisation's pages. */
  path(facts: AlertFacts): string
}
type Form = {
  label: string
  /** The label of the threshold, with its unit. */
  thresholdLabel: string
  /** "Error rate ≥ 5% over 15 minutes", of formatted parts. */
  condition(limit: string, window: string | null): string
  proposed: { threshold: number; window: Window | null }
}
type Common = Texts &
  Form & {
    unit: Unit
    /** The largest threshold. */
    max: number
    /** Which requests, keys or endpoints it can be limited to. */
    scope: readonly ('key' | 'model' | 'environment')[]
    /** What must be counted before it is compared. */
    minimum: 'requests' | 'deliveries' | null
  }

/** How a figure of requests is measured. `counted`: compared with the rule's minimum. */
type RequestMeasure = { windows: readonly Window[] } & (
  | { figureOf(groups: readonly Group[]): Figure }
  /** The 95th percentile of a duration, which cannot be added up from groups. */
  | { percentileOf: DurationMeasure }
)
export type Figure = { value: number | null; counted: number }
type KeyMeasure = {
  windows: null
  /** Null = it cannot hold for this key. */
  daysOf(key: KeyTimes, nowMs: number): number | null
  holds(days: number, threshold: number): boolean
}
/** An endpoint's success over the last 24 hours, in percent. */
type EndpointMeasure = { windows: null; holds(percent: number, threshold: number): boolean }

type RequestKind = Common & RequestMeasure & { of: 'requests' }
type KeyKind = Common & KeyMeasure & { of: 'keys' }
type EndpointKind = Common & EndpointMeasure & { of: 'endpoints' }
export type Kind = RequestKind | KeyKind | EndpointKind

const spans: Record<Window, string> = {
  '5m': 'over the last 5 minutes',
  '15m': 'over the last 15 minutes',
  '1h': 'over the last hour',
  '24h': 'over the last 24 hours',
  day: 'today (UTC)',
  week: 'this week (UTC)',
  month: 'this month (UTC)',
}
const thresholdLabels = { usd: 'At or above (USD)', percent: 'At or above (%)', ms: 'At or above (ms)' } as const

const ruleKinds = {
  /** The cost of requests since the UTC day, week or month began reached an amount. */
  spend: ofRequests({
    label: 'Spend',
    noun: 'spend',
    unit: 'usd',
    max: 10_000_000,
    windows: periods,
    minimum: null,
    proposed: { threshold: 50, window: 'day' },
    figureOf: groups => ({ value: usdFromNano(groups.reduce((sum, { cost }) => sum + cost, 0n)), counted: Infinity }),
  }),
  /** Requests that failed, in percent of all: what the Usage page counts as errors. */
  error_rate: ofRequests({
    label: 'Error rate',
    noun: 'the error rate',
    unit: 'percent',
    max: 100,
    windows: minutes,
    minimum: 'requests',
    proposed: { threshold: 5, window: '15m' },
    figureOf(groups) {
      const requests = sumOf(groups, 'requests')
      return { value: requests === 0 ? null : (100 * sumOf(groups, 'errors')) / requests, counted: requests }
    },
    filters: { status: 'error' },
  }),
  latency_p95: ofRequests({
    label: 'Latency, p95',
    noun: 'the 95th percentile of the latency',
    unit: 'ms',
    max: 600_000,
    windows: minutes,
    minimum: 'requests',
    proposed: { threshold: 10_000, window: '15m' },
    percentileOf: 'latency',
  }),
  ttft_p95: ofRequests({
    label: 'Time to first token, p95',
    noun: 'the 95th percentile of the time to first token',
    unit: 'ms',
    max: 600_000,
    windows: minutes,
    minimum: 'requests',
    proposed: { threshold: 3_000, window: '15m' },
    percentileOf: 'first_token',
  }),
  /** A key expires within the threshold, in days. */
  key_expiring: ofKeys({
    label: 'Key expires',
    thresholdLabel: 'Days ahead',
    proposed: { threshold: 14, window: null },
    daysOf: ({ expiresAt }, nowMs) => (expiresAt === null ? null : (expiresAt.getTime() - nowMs) / dayMs),
    holds: (days, threshold) => days <= threshold,
    condition: limit => `Key expires within ${limit}`,
    raised: ({ subject, value }) => `The API key ${nameOf(subject)} expires in ${amountOf('days', value ?? 0)}`,
    resolved: ({ subject }) => `the API key ${nameOf(subject)} expired, was extended or was revoked`,
  }),
  /** A key was not used for the threshold, in days. */
  key_unused: ofKeys({
    label: 'Key not used',
    thresholdLabel: 'Days without a request',
    proposed: { threshold: 30, window: null },
    daysOf: ({ lastUsedAt, createdAt }, nowMs) => (nowMs - (lastUsedAt ?? createdAt).getTime()) / dayMs,
    holds: (days, threshold) => days >= threshold,
    condition: limit => `Key not used for ${limit}`,
    raised: ({ subject, value }) => `The API key ${nameOf(subject)} was not used for ${amountOf('days', value ?? 0)}`,
    resolved: ({ subject }) => `the API key ${nameOf(subject)} was used, or can no longer be used`,
  }),
  /** The success rate of an endpoint's deliveries in the last 24 hours is below the threshold, in percent. */
  webhook_failing: {
    of: 'endpoints',
    label: 'Webhook endpoint fails',
    thresholdLabel: 'Success rate below (%)',
    unit: 'percent',
    max: 100,
    windows: null,
    scope: [],
    minimum: 'deliveries',
    proposed: { threshold: 90, window: null },
    holds: (percent, threshold) => percent < threshold,
    condition: limit => `Endpoint success < ${limit} over 24 hours`,
    raised({ rule, subject, value }) {
      const [figure, limit] = [amountOf('percent', value ?? 0), amountOf('percent', rule.threshold)]
      return `${figure} of the deliveries to ${subject?.name} succeeded over the last 24 hours, fewer than ${limit}`
    },
    resolved: ({ rule, subject }) =>
      `at least ${amountOf('percent', rule.threshold)} of the deliveries to ${subject?.name} succeed, or there are few`,
    path: ({ subject }) => (subject ? `webhooks/endpoints/${subject.id}` : 'webhooks'),
  },
} satisfies Record<string, Kind>
export type RuleKind = keyof typeof ruleKinds
export const ruleKindNames = Object.keys(ruleKinds) as [RuleKind, ...RuleKind[]]

/** The properties of a kind, in their general type. */
export function kindOf(kind: RuleKind): Kind {
  return ruleKinds[kind]
}

type RequestOptions = RequestMeasure &
  Pick<RequestKind, 'label' | 'max' | 'minimum' | 'proposed'> & {
    unit: keyof typeof thresholdLabels
    /** What is measured, within a sentence. */
    noun: string
    /** Filters of the page of requests, besides the rule's own. */
    filters?: Record<string, string>
  }

/** A kind of rule about a figure of requests, which holds from its threshold upwards. */
function ofRequests({ noun, filters, ...kind }: RequestOptions): RequestKind {
  const { label, unit } = kind
  return {
    ...kind,
    of: 'requests',
    scope: ['key', 'model', 'environment'],
    thresholdLabel: thresholdLabels[unit],
    condition: (limit, window) => `${label} ≥ ${limit} ${unit === 'usd' ? 'in a' : 'over'} ${window}`,
    raised({ rule: { threshold, window }, scope, value }) {
      const [figure, limit] = [amountOf(unit, value ?? 0), amountOf(unit, threshold)]
      const of = scope.model === null ? '' : ` of ${scope.model}`
      const subject = `${noun[0]!.toUpperCase()}${noun.slice(1)}${of}`
      return `${subject} ${spans[window!]} is ${figure}; the threshold is ${limit}`
    },
    resolved({ rule: { threshold, window }, value }) {
      if (isPeriod(window) && value !== null && value >= threshold) return `its ${window} has ended`
      return `${noun} ${spans[window!]} is below ${amountOf(unit, threshold)}`
    },
    path: facts => requestsPath(facts, filters),
  }
}

type KeyOptions = Omit<KeyKind, 'of' | 'unit' | 'max' | 'windows' | 'scope' | 'minimum' | 'path'>

/** A kind of rule about each key, in days. */
function ofKeys(kind: KeyOptions): KeyKind {
  return {
    ...kind,
    of: 'keys',
    unit: 'days',
    max: 365,
    windows: null,
    scope: ['key', 'environment'],
    minimum: null,
    path: ({ subject }) => (subject ? `keys/${subject.id}` : 'keys'),
  }
}

function sumOf(groups: readonly Group[], column: 'requests' | 'errors'): number {
  return groups.reduce((sum, group) => sum + Number(group[column]), 0)
}

function nameOf(subject: AlertFacts['subject']): string {
  return quoteName(subject?.name ?? '')
}

function amountOf(unit: Unit, value: number): string {
  switch (unit) {
    case 'usd':
      return formatCents(nanoFromUsd(value))
    case 'percent':
      return `${Math.round(value * 100) / 100}%`
    case 'ms':
      return `${Math.round(value)} ms`
    case 'days':
      return Math.floor(value) === 1 ? '1 day' : `${Math.floor(value)} days`
  }
}

/** The requests that were measured, with the rule's filters. */
function requestsPath(
  { scope, measured_from, since, resolved_at }: AlertFacts,
  filters: Record<string, string> = {},
): string {
  const query = new URLSearchParams({
    ...(measured_from !== null && { from: measured_from }),
    to: resolved_at ?? since,
    environment: scope.environment,
    ...(scope.key !== null && { key: scope.key }),
    ...(scope.model !== null && { model: scope.model }),
    ...filters,
  })
  return `requests?${query}`
}
