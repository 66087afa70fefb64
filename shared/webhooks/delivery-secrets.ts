import type { WebhookDelivery } from '../generated/prisma/client.ts'
import { listSigningSecrets, type WebhookSecrets } from './secrets.ts'
import type { Services } from '../services.ts'

type Delivery = Pick<WebhookDelivery, 'organisationId' | 'endpointId' | 'requested'>

/**
 * The secrets that sign each delivery, newest first: those of its endpoint, and the organisation's if the endpoint has none
 * or the URL was also named by a job, a batch or the alert settings.
 */
export async function listDeliverySecrets(services: Services, deliveries: readonly Delivery[]): Promise<string[][]> {
  const { db, clock, webhookEndpoints } = services
  const endpointIds = [...new Set(deliveries.flatMap(({ endpointId }) => endpointId ?? []))]
  const endpoints =
    endpointIds.length === 0 ? [] : await db.webhookEndpoint.findMany({ where: { id: { in: endpointIds } } })
  const own = new Map(endpoints.map(row => [row.id, webhookEndpoints.secretsOf(row)]))
  const signed = deliveries.map(({ endpointId, requested, organisationId }) => {
    const secrets = endpointId === null ? null : (own.get(endpointId) ?? null)
    return { secrets, organisationId: secrets === null || requested ? organisationId : null }
  })
  const organisationIds = [...new Set(signed.flatMap(({ organisationId }) => organisationId ?? []))]
  const shared = await listSigningSecrets(services, organisationIds, clock.now())
  return signed.map(({ secrets, organisationId }) => [
    ...(secrets ? listOf(secrets) : []),
    ...(organisationId === null ? [] : shared.get(organisationId)!),
  ])
}

function listOf({ secret, previous }: WebhookSecrets): string[] {
  return previous === null ? [secret] : [secret, previous]
}
