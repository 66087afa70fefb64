import type { z } from 'zod'
import type { WebhookEndpoint } from '../../shared/generated/prisma/client.ts'
import type { WebhookServices } from '../../shared/webhooks/webhook-services.ts'
import type { webhookEndpoint } from '../schemas/webhooks.ts'

export type ShownEndpoint = z.output<typeof webhookEndpoint>

/** A webhook endpoint in the API's format, without its secret. */
export function presentEndpoint({ webhookEndpoints }: WebhookServices, row: WebhookEndpoint): ShownEndpoint {
  return {
    id: row.id,
    object: 'webhook_endpoint',
    url: row.url,
    description: row.description,
    events: row.events,
    enabled: row.enabled,
    disabled_for_failures: row.disabledForFailures,
    signing_secret: row.secret === null ? 'organisation' : 'own',
    previous_secret_valid_until: webhookEndpoints.secretsOf(row)?.previousUntil?.toISOString() ?? null,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  }
}
