import { type RuleEvent, ruleText } from '../alerts/rule-events.ts'
import { openSlackUrl } from '../alerts/rules.ts'
import type { WebhookDelivery } from '../generated/prisma/client.ts'
import type { Services } from '../services.ts'
import type { Post } from '../../workers/webhooks/post.ts'

/** A Slack webhook: its URL, and the name of its organisation. */
export type SlackTarget = { url: string; organisation: string }

/** The Slack webhooks of deliveries by their rules. A rule that was deleted, or has none any more, is absent. */
export async function listSlackTargets(
  { db, sealer }: Services,
  deliveries: readonly Pick<WebhookDelivery, 'alertRuleId'>[],
): Promise<Map<string, SlackTarget>> {
  const ids = [...new Set(deliveries.flatMap(({ alertRuleId }) => alertRuleId ?? []))]
  if (ids.length === 0) return new Map()
  const rows = await db.alertRule.findMany({
    where: { id: { in: ids }, slackUrl: { not: null } },
    include: { organisation: { select: { name: true } } },
  })
  return new Map(rows.map(row => [row.id, { url: openSlackUrl(sealer, row)!, organisation: row.organisation.name }]))
}

/** The message of an alert in Slack's format for incoming webhooks, which others also understand. */
export function slackMessage(
  { url, organisation }: SlackTarget,
  event: RuleEvent,
  organisationId: string,
  publicUrl: string,
): Post {
  const { subject, text, path } = ruleText(event, organisation)
  const link = `<${publicUrl}/dashboard/${organisationId}/${path}|Show in the dashboard>`
  const section = (markdown: string) => ({ type: 'section', text: { type: 'mrkdwn', text: markdown } })
  const blocks = [section(`*${escaped(subject)}*\n${escaped(text)}`), section(link)]
  const headers = { 'content-type': 'application/json', 'user-agent': 'headgate' }
  return { url, headers, body: JSON.stringify({ text: escaped(`${subject}: ${text}`), blocks }) }
}

/** Names may contain what Slack takes for links and mentions. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
