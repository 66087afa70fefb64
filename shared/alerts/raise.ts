import { newId } from '../base/ids.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import type { AlertType } from '../webhooks/events.ts'
import type { WebhookServices } from '../webhooks/webhook-services.ts'
import type { EmailTo } from './emails.ts'

/** An alert to raise once per cause; `data` is the payload of its webhook. */
export type NewAlert = {
  organisationId: string
  cause: string
  type: AlertType
  keyId: string | null
  data: Prisma.InputJsonObject
  /** Default: an email to owners and admins, and the webhooks. */
  channels?: Channels
}

/** The channels of an alert by a rule. */
export type Channels = {
  emailTo: EmailTo
  webhook: boolean
  /** The rule with the Slack webhook, and the URL as it is shown. */
  slack: { alertRuleId: string; url: string } | null
}

/**
 * Inserts alerts, each with a pending email and webhook deliveries to the organisation's URL for alerts and its endpoints, or to its own channels;
 * skips alerts whose cause exists already. Runs in the caller's transaction (outbox): the caller `enqueue`s the returned deliveries after its commit.
 */
export async function raiseAlerts(
  { webhooks, clock }: WebhookServices,
  tx: Connection,
  alerts: readonly NewAlert[],
): Promise<{ count: number; deliveryIds: string[] }> {
  const nowMs = clock.now()
  const now = new Date(nowMs)
  const data = alerts.map(({ channels, ...alert }) => ({
    id: newId('alr'),
    ...alert,
    createdAt: now,
    nextEmailAt: now,
    ...(channels && { emailTo: channels.emailTo }),
  }))
  const chosen = new Map(alerts.map(({ cause, channels }) => [cause, channels]))
  const inserted = await tx.alert.createManyAndReturn({ data, skipDuplicates: true })
  const organisations = await tx.organisation.findMany({
    where: { id: { in: inserted.map(({ organisationId }) => organisationId) } },
    select: { id: true, alertWebhookUrl: true },
  })
  const urls = new Map(organisations.map(({ id, alertWebhookUrl }) => [id, alertWebhookUrl]))
  const deliveryIds: string[] = []
  for (const { organisationId, cause, type, data } of inserted) {
    const { webhook = true, slack = null } = chosen.get(cause) ?? {}
    const event = { organisationId, type, data: data as Prisma.InputJsonObject, nowMs }
    if (webhook) deliveryIds.push(...(await webhooks.publish(tx, { ...event, url: urls.get(organisationId) ?? null })))
    if (slack) deliveryIds.push(await webhooks.insert(tx, { ...event, ...slack }))
  }
  return { count: inserted.length, deliveryIds }
}
