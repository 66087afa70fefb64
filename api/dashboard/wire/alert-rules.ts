/** Types and the kinds of rules, shared by the page of alerts and its routes. */

import type { RuleFields } from '../../../shared/alerts/rules.ts'
import type { Delivery } from './webhooks.ts'

export { kindOf, type RuleKind, ruleKindNames, type Window } from '../../../shared/alerts/rule-kinds.ts'
export type { EmailChoice } from '../../../shared/alerts/rules.ts'

/** What POST and PATCH …/alerts/rules take, besides `slack_url`. `key` is the id of a key. */
export type AlertRuleFields = Omit<RuleFields, 'slack_url'>

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
