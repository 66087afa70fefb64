import type { RuleKind, Window } from '../../../../../shared/alerts/rule-kinds.ts'
import type { DashboardRule } from '../../../wire/alert-rules.ts'
import { duration, usd } from '../../format.ts'

type Kind = {
  label: string
  /** The label of the threshold, with its unit. */
  threshold: string
  unit: 'usd' | 'percent' | 'ms' | 'days'
  /** The first one is proposed. */
  windows: Window[]
  scope: ('key' | 'model' | 'environment')[]
  /** What must be counted before it is compared. */
  minimum: 'requests' | 'deliveries' | null
  proposed: number
}

const spans: Window[] = ['15m', '5m', '1h', '24h']
const everything: Kind['scope'] = ['key', 'model', 'environment']

export const kinds: Record<RuleKind, Kind> = {
  error_rate: {
    ...{ label: 'Error rate', threshold: 'At or above (%)', unit: 'percent', proposed: 5 },
    ...{ windows: spans, scope: everything, minimum: 'requests' },
  },
  latency_p95: {
    ...{ label: 'Latency, p95', threshold: 'At or above (ms)', unit: 'ms', proposed: 10_000 },
    ...{ windows: spans, scope: everything, minimum: 'requests' },
  },
  ttft_p95: {
    ...{ label: 'Time to first token, p95', threshold: 'At or above (ms)', unit: 'ms', proposed: 3_000 },
    ...{ windows: spans, scope: everything, minimum: 'requests' },
  },
  spend: {
    ...{ label: 'Spend', threshold: 'At or above (USD)', unit: 'usd', proposed: 50 },
    ...{ windows: ['day', 'week', 'month'], scope: everything, minimum: null },
  },
  key_expiring: {
    ...{ label: 'Key expires', threshold: 'Days ahead', unit: 'days', proposed: 14 },
    ...{ windows: [], scope: ['key', 'environment'], minimum: null },
  },
  key_unused: {
    ...{ label: 'Key not used', threshold: 'Days without a request', unit: 'days', proposed: 30 },
    ...{ windows: [], scope: ['key', 'environment'], minimum: null },
  },
  webhook_failing: {
    ...{ label: 'Webhook endpoint fails', threshold: 'Success rate below (%)', unit: 'percent', proposed: 90 },
    ...{ windows: [], scope: [], minimum: 'deliveries' },
  },
}

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

/** "Error rate ≥ 5% over 15 minutes, gpt-4o". */
export function conditionText({ kind, threshold, window, key_name, model, environment }: DashboardRule): string {
  const { label, scope } = kinds[kind]
  const limit = amountText(kind, threshold)
  const over =
    window === null
      ? ''
      : kinds[kind].unit === 'usd'
        ? ` in a ${windowLabels[window]}`
        : ` over ${windowLabels[window]}`
  const condition =
    kind === 'key_expiring'
      ? `${label} within ${limit}`
      : kind === 'key_unused'
        ? `${label} for ${limit}`
        : kind === 'webhook_failing'
          ? `Endpoint success < ${limit} over 24 hours`
          : `${label} ≥ ${limit}${over}`
  const test = environment === 'test' && scope.includes('environment') ? 'test' : null
  return [condition, key_name, model, test].filter(part => part !== null).join(' · ')
}

/** An amount in the unit of a kind. */
export function amountText(kind: RuleKind, value: number): string {
  switch (kinds[kind].unit) {
    case 'usd':
      return usd(value)
    case 'percent':
      return `${Math.round(value * 100) / 100}%`
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
