/** Types shared by the alert rules of the page of alerts and their routes. */

import type { RuleKind, Window } from '../../../shared/alerts/rule-kinds.ts'
import type { Delivery } from './webhooks.ts'

export type EmailChoice = 'owners' | 'admins' | 'all' | 'members'

/** What POST and PATCH …/alerts/rules take. */
export type AlertRuleFields = {
  name: string
  kind: RuleKind
  /** USD, percent, milliseconds or days, by the kind. */
  threshold: number
  window: Window | null
  min_requests: number
  /** The id of a key. */
  key: string | null
  model: string | null
  environment: 'live' | 'test'
  email: EmailChoice | null
  member_ids: string[]
  webhook: boolean
  enabled: boolean
}

/** A rule with its state. */
export type DashboardRule = AlertRuleFields & {
  id: string
  key_name: string | null
  /** The last characters of the Slack webhook URL; null = none. */
  slack_end: string | null
  /** What was measured last; null if nothing was. */
  value: number | null
  evaluated_at: string | null
  firing: { since: string; subjects: string[] } | null
  /** The latest message to Slack, if it failed. */
  slack_failure: Pick<Delivery, 'id' | 'created_at'> | null
}

/** GET …/alerts/rules */
export type AlertRulesAnswer = {
  data: DashboardRule[]
  max: number
  /** What rules can be limited to, and who can get their emails. */
  choices: { keys: { id: string; name: string }[]; models: string[]; members: { id: string; name: string }[] }
}
export type AlertRuleAnswer = { data: DashboardRule }
/** POST …/alerts/rules/{rule}/test */
export type ChannelTestAnswer = {
  /** The addresses of the email. */
  email_to: string[]
  /** The deliveries of webhooks and Slack messages, scheduled at once. */
  deliveries: Delivery[]
}
