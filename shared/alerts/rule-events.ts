import { quoteName } from '../base/quote-name.ts'
import type { AlertRule } from '../generated/prisma/client.ts'
import { type AlertFacts, kindOf, type RuleKind, type Window } from './rule-kinds.ts'
import type { Subject } from './rule-measures.ts'

/** The data of `alert.raised` and `alert.resolved`. */
export type RuleEvent = AlertFacts & {
  object: 'alert.raised' | 'alert.resolved'
  rule: { id: string; name: string; kind: RuleKind }
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

/** The text of an event for people, and the page of what it is about, below the organisation's pages. */
export function ruleText(event: RuleEvent, organisation: string): { subject: string; text: string; path: string } {
  const { rule, object, test } = event
  const kind = kindOf(rule.kind)
  const isOver = object === 'alert.resolved'
  const title = `${test ? 'Test: ' : ''}${quoteName(rule.name)} is ${isOver ? 'resolved' : 'firing'}`
  const what = isOver ? `This alert is over: ${kind.resolved(event)}.` : `${kind.raised(event)}.`
  const since = `${event.since.slice(0, 16).replace('T', ' ')} UTC`
  const about = test ? 'This is a test of the channel; nothing is wrong' : `${isOver ? 'Raised' : 'Since'} ${since}`
  return { subject: title, text: `${what}\n\n${about} (${quoteName(organisation)}).`, path: kind.path(event) }
}
