import { z } from 'zod'
import { type WebhookEvent, webhookEvents } from '../webhook-events.ts'
import type { Components, Json } from './components.ts'

const signature = [
  { name: 'webhook-id', description: 'The id of the event, the same for every attempt.' },
  { name: 'webhook-timestamp', description: 'The Unix timestamp (in seconds) of this attempt.' },
  {
    name: 'webhook-signature',
    description:
      '`v1,` followed by the base64-encoded HMAC-SHA256 of id, timestamp and body; multiple signatures are separated by spaces.',
  },
].map(header => ({ ...header, in: 'header', required: true, schema: { type: 'string' } }))

/** The webhooks of the document: the events the gateway posts, and how it interprets the response. */
export function buildWebhooks(components: Components): Json {
  return Object.fromEntries(
    Object.entries(webhookEvents).map(([type, event]) => [type, { post: post(type, event, components) }]),
  )
}

function post(type: string, { summary, data }: WebhookEvent, components: Components): Json {
  const name = type.replaceAll(/(?:^|[._])(\w)/g, (_, letter: string) => letter.toUpperCase())
  const event = z
    .strictObject({
      type: z.literal(type),
      timestamp: z.iso.datetime().describe('When the event occurred.'),
      data,
    })
    .meta({ id: `${name}Event` })
  return {
    tags: ['Webhooks'],
    summary,
    operationId: `receive${name}`,
    security: [],
    parameters: signature.map(header => components.refer('parameters', header.name, header)),
    requestBody: { required: true, content: { 'application/json': { schema: components.schema(event, 'output') } } },
    responses: {
      '2XX': { description: 'Acknowledged.' },
      410: { description: 'Gone: the event is not sent again.' },
    },
  }
}
