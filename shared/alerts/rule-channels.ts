import { rolesWith } from '../base/roles.ts'
import type { AlertRule } from '../generated/prisma/client.ts'
import type { EmailTo } from './emails.ts'
import type { Channels } from './raise.ts'
import type { EmailChoice } from './rules.ts'

const roles: Record<Exclude<EmailChoice, 'members'>, string[]> = {
  owners: rolesWith('own'),
  admins: rolesWith('manage'),
  all: rolesWith('use'),
}

/** Who gets the emails of a rule. */
export function emailToOf({ email, memberIds }: Pick<AlertRule, 'email' | 'memberIds'>): EmailTo {
  if (email === 'members') return { userIds: memberIds }
  return { roles: email === null ? [] : roles[email as keyof typeof roles] }
}

/** How the Slack webhook of a rule is shown; null without one. It is no URL that could be posted to. */
export function slackLabel({ slackEnd }: Pick<AlertRule, 'slackEnd'>): string | null {
  return slackEnd === null ? null : `slack:…${slackEnd}`
}

/** The channels that a rule's alerts go to. */
export function channelsOf(rule: AlertRule): Channels {
  const url = slackLabel(rule)
  return {
    emailTo: emailToOf(rule),
    webhook: rule.webhook,
    slack: url === null ? null : { alertRuleId: rule.id, url },
  }
}
