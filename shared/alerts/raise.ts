import { newId } from '../base/ids.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import type { Services } from '../services.ts'
import type { EventType } from '../store/webhook-events.ts'

/** An alert to raise once per cause; `data` is the payload of its webhook. */
export type NewAlert = {
  organisationId: string
  cause: string
  type: Extract<EventType, 'key.spend_alert' | 'key.blocked' | 'wallet.low_balance' | 'webhook_endpoint.disabled'>
  keyId: string | null
  data: Prisma.InputJsonObject
}

/**
 * Inserts alerts, each with a pending email and webhook deliveries to the organisation's URL for alerts and its endpoints;
 * skips alerts whose cause exists already. Runs in the caller's transaction (outbox): the caller `enqueue`s the returned deliveries after its commit.
 */
export async function raiseAlerts(
  { webhooks, clock }: Services,
  tx: Connection,
  alerts: readonly NewAlert[],
): Promise<{ count: number; deliveryIds: string[] }> {
  const nowMs = clock.now()
  const now = new Date(nowMs)
  const data = alerts.map(alert => ({ id: newId('alr'), ...alert, createdAt: now, nextEmailAt: now }))
  const inserted = await tx.alert.createManyAndReturn({ data, skipDuplicates: true })
  const organisations = await tx.organisation.findMany({
    where: { id: { in: inserted.map(({ organisationId }) => organisationId) } },
    select: { id: true, alertWebhookUrl: true },
  })
  const urls = new Map(organisations.map(({ id, alertWebhookUrl }) => [id, alertWebhookUrl]))
  const deliveryIds: string[] = []
  for (const { organisationId, type, data } of inserted) {
    const url = urls.get(organisationId) ?? null
    const event = { organisationId, type, url, data: data as Prisma.InputJsonObject, nowMs }
    deliveryIds.push(...(await webhooks.publish(tx, event)))
  }
  return { count: inserted.length, deliveryIds }
}
