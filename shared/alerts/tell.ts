import { newId } from '../base/ids.ts'
import type { Prisma } from '../generated/prisma/client.ts'
import type { Connection } from '../io/db.ts'
import type { Services } from '../services.ts'

/** Something that happened to an organisation once; `data` is what its webhook gets. */
export type NewAlert = {
  organisationId: string
  cause: string
  type: 'key.spend_alert' | 'key.blocked' | 'wallet.low_balance'
  keyId: string | null
  data: Prisma.InputJsonObject
}

/**
 * Notes alerts, with an email owed for each and a webhook where the organisation wants one; one whose cause is known is left
 * out. For the caller's transaction, which `enqueue`s the deliveries of the answer after its commit.
 */
export async function tell(
  { webhooks, clock }: Services,
  tx: Connection,
  alerts: readonly NewAlert[],
): Promise<{ told: number; deliveryIds: string[] }> {
  const nowMs = clock.now()
  const now = new Date(nowMs)
  const data = alerts.map(alert => ({ id: newId('alr'), ...alert, createdAt: now, nextEmailAt: now }))
  const written = await tx.alert.createManyAndReturn({ data, skipDuplicates: true })
  const organisations = await tx.organisation.findMany({
    where: { id: { in: written.map(({ organisationId }) => organisationId) }, alertWebhookUrl: { not: null } },
    select: { id: true, alertWebhookUrl: true },
  })
  const urls = new Map(organisations.map(({ id, alertWebhookUrl }) => [id, alertWebhookUrl]))
  const deliveryIds: string[] = []
  for (const { organisationId, type, data } of written) {
    const url = urls.get(organisationId)
    if (!url) continue
    const event = { organisationId, type, url, data: data as Prisma.InputJsonObject, nowMs }
    deliveryIds.push(await webhooks.insert(tx, event))
  }
  return { told: written.length, deliveryIds }
}
