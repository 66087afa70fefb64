import { type DashboardRule, kindOf, type RuleKind, type Window } from '../../../wire/alert-rules.ts'
import { duration, usd } from '../../format.ts'

export const windowLabels: Record<Window, string> = {
  '5m': '5 minutes',
  '15m': '15 minutes',
  '1h': '1 hour',
  '24h': '24 hours',
  day: 'UTC day',
  week: 'UTC week',
  month: 'UTC month',
}

export const emailLabels = {
  owners: 'Owners',
  admins: 'Owners and admins',
  all: 'All members',
  members: 'Chosen members',
} as const

/** "Error rate ≥ 5 % over 15 minutes · gpt-4o". */
export function conditionText({ kind, threshold, window, key_name, model, environment }: DashboardRule): string {
  const { scope, condition } = kindOf(kind)
  const test = environment === 'test' && scope.includes('environment') ? 'test' : null
  const parts = [condition(amountText(kind, threshold), window && windowLabels[window]), key_name, model, test]
  return parts.filter(part => part !== null).join(' · ')
}

/** An amount in the unit of a kind. */
export function amountText(kind: RuleKind, value: number): string {
  switch (kindOf(kind).unit) {
    case 'usd':
      return usd(value)
    case 'percent':
      return `${Math.round(value * 100) / 100} %`
    case 'ms':
      return duration(value)
    case 'days':
      return value === 1 ? '1 day' : `${value} days`
  }
}

/** "Email to owners, webhook, Slack …abcd". */
export function channelsText({ email, webhook, slack_end }: DashboardRule): string {
  const parts = [
    email && `email to ${emailLabels[email].toLowerCase()}`,
    webhook && 'webhooks',
    slack_end && `Slack …${slack_end}`,
  ].filter(Boolean)
  const text = parts.length > 0 ? parts.join(', ') : 'dashboard only'
  return text[0]!.toUpperCase() + text.slice(1)
}
