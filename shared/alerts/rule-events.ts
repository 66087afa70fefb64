import { quoteName } from '../base/quote-name.ts'
import type { AlertRule } from '../generated/prisma/client.ts'
import { isPeriod, kindOf, type RuleKind, type Window } from './rule-kinds.ts'
import type { Subject } from './rule-measures.ts'

/** The data of `alert.raised` and `alert.resolved`. */
export type RuleEvent = {
  object: 'alert.raised' | 'alert.resolved'
  rule: { id: string; name: string; kind: RuleKind; threshold: number; window: Window | null }
  scope: { key: string | null; model: string | null; environment: 'live' | 'test' }
  /** The key (by its hash) or the endpoint that it is about; null for requests. */
  subject: { id: string; name: string } | null
  /** In the unit of the threshold; null if nothing could be measured. */
  value: number | null
  since: string
  /** When the first measured request was sent at the earliest; null for keys. */
  measured_from: string | null
  resolved_at: string | null
  /** Present on events that were sent to test a channel. */
  test?: true
}

type Facts = {
  rule: AlertRule
  subject: Subject
  value: number | null
  since: Date
  from: Date | null
  resolvedAt: Date | null
}

export function ruleEvent({ rule, subject, value, since, from, resolvedAt }: Facts): RuleEvent {
  const { id, name, threshold, keyId, model, environment } = rule
  const { reference, name: subjectName } = subject
  return {
    object: resolvedAt ? 'alert.resolved' : 'alert.raised',
    rule: { id, name, kind: rule.kind as RuleKind, threshold, window: rule.window as Window | null },
    scope: { key: keyId, model, environment },
    subject: reference === null ? null : { id: reference, name: subjectName ?? reference },
    value: value === null ? null : Math.round(value * 1e6) / 1e6,
    since: since.toISOString(),
    measured_from: from?.toISOString() ?? null,
    resolved_at: resolvedAt?.toISOString() ?? null,
  }
}

const spans: Record<Window, string> = {
  '5m': 'over the last 5 minutes',
  '15m': 'over the last 15 minutes',
  '1h': 'over the last hour',
  '24h': 'over the last 24 hours',
  day: 'today (UTC)',
  week: 'this week (UTC)',
  month: 'this month (UTC)',
}

/** The text of an event for people, and the page of what it is about, below the organisation's pages. */
export function ruleText(event: RuleEvent, organisation: string): { subject: string; text: string; path: string } {
  const { rule, object, test } = event
  const isOver = object === 'alert.resolved'
  const title = `${test ? 'Test: ' : ''}${quoteName(rule.name)} is ${isOver ? 'resolved' : 'firing'}`
  const what = isOver ? `This alert is over: ${conditionOf(event)}.` : `${sentenceOf(event)}.`
  const since = `${event.since.slice(0, 16).replace('T', ' ')} UTC`
  const about = test ? 'This is a test of the channel; nothing is wrong' : `${isOver ? 'Raised' : 'Since'} ${since}`
  return { subject: title, text: `${what}\n\n${about} (${quoteName(organisation)}).`, path: pathOf(event) }
}

/** "the error rate is at or above 5%". */
function conditionOf({ rule: { kind, threshold, window }, subject, value }: RuleEvent): string {
  const limit = amountOf(kind, threshold)
  if (kind === 'key_expiring')
    return `the API key ${quoteName(subject?.name ?? '')} expired, was extended or was revoked`
  if (kind === 'key_unused') return `the API key ${quoteName(subject?.name ?? '')} was used, or can no longer be used`
  if (kind === 'webhook_failing')
    return `at least ${limit} of the deliveries to ${subject?.name} succeed, or there are few`
  if (isPeriod(window) && value !== null && value >= threshold) return `its ${window} has ended`
  return `${nouns[kind]} ${spans[window!]} is below ${limit}`
}

const nouns = {
  spend: 'spend',
  error_rate: 'the error rate',
  latency_p95: 'the 95th percentile of the latency',
  ttft_p95: 'the 95th percentile of the time to first token',
} as const

function sentenceOf({ rule: { kind, threshold, window }, scope, subject, value }: RuleEvent): string {
  const [figure, limit] = [amountOf(kind, value ?? 0), amountOf(kind, threshold)]
  if (kind === 'key_expiring') return `The API key ${quoteName(subject?.name ?? '')} expires in ${figure}`
  if (kind === 'key_unused') return `The API key ${quoteName(subject?.name ?? '')} was not used for ${figure}`
  if (kind === 'webhook_failing')
    return `${figure} of the deliveries to ${subject?.name} succeeded over the last 24 hours, fewer than ${limit}`
  const of = scope.model === null ? '' : ` of ${scope.model}`
  const noun = nouns[kind]
  return `${noun[0]!.toUpperCase()}${noun.slice(1)}${of} ${spans[window!]} is ${figure}; the threshold is ${limit}`
}

function amountOf(kind: RuleKind, value: number): string {
  const short = Math.round(value * 100) / 100
  switch (kindOf(kind).unit) {
    case 'usd':
      return `$${value.toFixed(value < 1 ? 4 : 2)}`
    case 'percent':
      return `${short}%`
    case 'ms':
      return `${Math.round(value)} ms`
    case 'days':
      return Math.floor(value) === 1 ? '1 day' : `${Math.floor(value)} days`
  }
}

/** The requests that were measured, with the rule's filters; or the key or endpoint. */
function pathOf({ rule: { kind }, scope, subject, measured_from, since, resolved_at }: RuleEvent): string {
  if (kind === 'webhook_failing') return subject ? `webhooks/endpoints/${subject.id}` : 'webhooks'
  if (kind === 'key_expiring' || kind === 'key_unused') return subject ? `keys/${subject.id}` : 'keys'
  const filters = {
    ...(measured_from !== null && { from: measured_from }),
    to: resolved_at ?? since,
    environment: scope.environment,
    ...(scope.key !== null && { key: scope.key }),
    ...(scope.model !== null && { model: scope.model }),
    ...(kind === 'error_rate' && { status: 'error' }),
  }
  return `requests?${new URLSearchParams(filters)}`
}
