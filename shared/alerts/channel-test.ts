import { GatewayError } from '../base/errors.ts'
import type { AlertRule } from '../generated/prisma/client.ts'
import type { Platform } from '../platform.ts'
import type { WebhookServices } from '../webhooks/webhook-services.ts'
import { listAlertRecipients } from './emails.ts'
import { emailToOf, slackLabel } from './rule-channels.ts'
import { type RuleEvent, ruleEvent } from './rule-events.ts'
import { formatAlertEmail } from './templates.ts'

type Channel = 'email' | 'webhook' | 'slack'
/** Where a test went: addresses, or the ids of deliveries. */
type ChannelTest = { emailTo: string[]; deliveryIds: string[] }

/** Sends a test of one channel of a rule, as its alerts are sent. Throws 400 if the channel leads nowhere. */
export async function testChannel(services: WebhookServices, rule: AlertRule, channel: Channel): Promise<ChannelTest> {
  const { db, webhooks, clock } = services
  const now = new Date(clock.now())
  const { organisationId, threshold: value } = rule
  const reference = rule.window === null ? 'sample' : null
  const subject = { subject: '', reference, name: 'Sample' }
  const data: RuleEvent = {
    ...ruleEvent({ rule, subject, value, since: now, from: now, resolvedAt: null }),
    test: true,
  }
  if (channel === 'email') return { emailTo: await sendTestEmail(services, rule, data), deliveryIds: [] }
  const { alertWebhookUrl } = await db.organisation.findUniqueOrThrow({ where: { id: organisationId } })
  const event = { organisationId, type: data.object, data, nowMs: now.getTime() }
  const deliveryIds = await db.$transaction(async tx => {
    if (channel === 'webhook') return rule.webhook ? webhooks.publish(tx, { ...event, url: alertWebhookUrl }) : []
    const url = slackLabel(rule)
    return url === null ? [] : [await webhooks.insert(tx, { ...event, url, alertRuleId: rule.id })]
  })
  if (deliveryIds.length === 0) throw nowhere(channel)
  await webhooks.enqueue(deliveryIds)
  return { emailTo: [], deliveryIds }
}

async function sendTestEmail({ db, mailer, config }: Platform, rule: AlertRule, data: RuleEvent): Promise<string[]> {
  const { organisationId } = rule
  const emailTo = await listAlertRecipients(db, organisationId, emailToOf(rule))
  if (emailTo.length === 0) throw nowhere('email')
  const { name } = await db.organisation.findUniqueOrThrow({ where: { id: organisationId } })
  const alert = { type: data.object, data, organisationId }
  for (const to of emailTo) await mailer.post({ to, ...formatAlertEmail(alert, name, config.publicUrl) })
  return emailTo
}

const problems: Record<Channel, string> = {
  email: 'This rule has no email recipient with a confirmed address.',
  webhook: 'This rule sends no webhooks, or there is neither a URL for alerts nor an endpoint that gets alert events.',
  slack: 'This rule has no Slack webhook.',
}

function nowhere(channel: Channel): GatewayError {
  return new GatewayError('invalid_request', problems[channel], { param: 'channel' })
}
