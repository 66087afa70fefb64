import type { Platform } from '../platform.ts'
import type { WebhookEndpoints } from './endpoints.ts'
import type { Webhooks } from './webhooks.ts'

/** What events and their deliveries need. */
export type WebhookServices = Platform & {
  webhooks: Webhooks
  webhookEndpoints: WebhookEndpoints
}
