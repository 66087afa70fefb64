import { z } from 'zod'
import { eventPatterns } from '../../shared/webhooks/events.ts'

const events = z
  .array(z.enum(eventPatterns as [string, ...string[]]))
  .min(1)
  .max(eventPatterns.length)
  .describe('The types of events it receives: `job.completed`, `job.*`, or `*` for all.')
const url = z.string().min(1).max(2_048).describe('An https URL on the public internet.')
const description = z.string().max(200)

/** The body of a request that creates an endpoint. */
export const newEndpoint = z
  .strictObject({
    url,
    events,
    description: description.optional().describe('A note for the people of the organisation.'),
    enabled: z.boolean().optional().describe('True by default.'),
    signing_secret: z
      .enum(['own', 'organisation'])
      .default('own')
      .describe('Whether its events are signed with a secret of its own or with that of the organisation.'),
  })
  .meta({ id: 'CreateWebhookEndpointRequest' })

/** The body of a request that updates an endpoint. */
export const endpointPatch = z
  .strictObject({
    url: url.optional(),
    events: events.optional(),
    description: description.optional().describe('A note for the people of the organisation.'),
    enabled: z.boolean().optional().describe('Disabling it ends its pending deliveries.'),
  })
  .meta({ id: 'UpdateWebhookEndpointRequest' })

export const webhookEndpoint = z
  .strictObject({
    id: z.string(),
    object: z.literal('webhook_endpoint'),
    url: z.string(),
    description: z.string(),
    events: z.array(z.string()),
    enabled: z.boolean(),
    disabled_for_failures: z.boolean().describe('Whether it was disabled because all its deliveries failed for days.'),
    signing_secret: z.enum(['own', 'organisation']),
    previous_secret_valid_until: z.iso
      .datetime()
      .nullable()
      .describe('Until when the secret before the last roll signs as well; null if it does not.'),
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
  })
  .meta({ id: 'WebhookEndpoint' })
