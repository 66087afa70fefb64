import { z } from 'zod'
import { ruleKindNames, windows } from '../../shared/alerts/rule-kinds.ts'
import type { EventType } from '../../shared/webhooks/events.ts'
import { batchAnswer } from '../schemas/batches.ts'
import { delayedJob } from '../schemas/delayed.ts'
import { jobAnswer, meshAnswer } from '../schemas/jobs.ts'
import type { Components, Json } from './components.ts'

const usd = z.number()
const keyOfAlert = z
  .strictObject({ hash: z.string(), name: z.string(), prefix: z.string(), last4: z.string() })
  .meta({ id: 'AlertedKey' })

const job = z.union([jobAnswer, meshAnswer, delayedJob]).describe('The job object.')
const batch = batchAnswer.describe('The batch object.')

type Event = { summary: string; data: z.ZodType }

/** What `alert.raised` and `alert.resolved` have in common. */
const ruleEvent = {
  rule: z.strictObject({
    id: z.string(),
    name: z.string(),
    kind: z.enum(ruleKindNames),
    threshold: z.number().describe('USD, percent, milliseconds or days, by the kind.'),
    window: z.enum(windows).nullable(),
  }),
  scope: z.strictObject({
    key: z.string().nullable().describe('The id of a key.'),
    model: z.string().nullable(),
    environment: z.enum(['live', 'test']),
  }),
  subject: z
    .strictObject({ id: z.string(), name: z.string() })
    .nullable()
    .describe('The key (by its hash) or the webhook endpoint it is about; null for requests.'),
  value: z.number().nullable().describe('What was measured, in the unit of the threshold.'),
  since: z.iso.datetime().describe('When the alert was raised.'),
  measured_from: z.iso.datetime().nullable().describe('The start of the time that was measured.'),
  test: z.literal(true).optional().describe('Present on events sent to test a channel.'),
}

/** Every webhook event, by type. */
const events: Record<EventType | 'webhook.test', Event> = {
  'job.completed': { summary: 'A job completed', data: job },
  'job.failed': { summary: 'A job failed', data: job },
  'job.cancelled': { summary: 'A job was cancelled', data: job },
  'job.expired': { summary: 'A job expired before it finished', data: job },
  'batch.completed': { summary: 'A batch completed', data: batch },
  'batch.failed': { summary: 'A batch failed validation', data: batch },
  'batch.cancelled': { summary: 'A batch was cancelled', data: batch },
  'batch.expired': { summary: 'A batch expired before it finished', data: batch },
  'key.spend_alert': {
    summary: 'A key reached 50, 80 or 100 percent of its monthly spend cap',
    data: z.strictObject({
      object: z.literal('key.spend_alert'),
      key: keyOfAlert,
      percent: z.int().describe('50, 80 or 100.'),
      cap_usd: usd,
      spent_usd: usd,
      month: z.string().describe('The UTC month, such as `2026-11`.'),
      resets_at: z.iso.datetime(),
    }),
  },
  'key.blocked': {
    summary: 'A key was blocked because its requests cost more than their reservations',
    data: z.strictObject({
      object: z.literal('key.blocked'),
      key: keyOfAlert,
      reason: z
        .enum(['hourly_limit', 'organisation_limit', 'negative_balance'])
        .describe(
          'The sum of an hour of the key or its organisation was too high, or it drove the balance below zero.',
        ),
      reference: z.string().describe('The id of the last such request.'),
      excess_usd: usd.describe('What the requests of the key cost beyond their reservations within an hour.'),
    }),
  },
  'wallet.low_balance': {
    summary: 'The balance fell below the alert threshold',
    data: z.strictObject({
      object: z.literal('wallet.low_balance'),
      balance_usd: usd,
      held_usd: usd,
      low_balance_usd: usd.describe('The alert threshold.'),
    }),
  },
  'webhook_endpoint.disabled': {
    summary: 'A webhook endpoint was disabled because all its deliveries failed for days',
    data: z.strictObject({
      object: z.literal('webhook_endpoint.disabled'),
      id: z.string(),
      url: z.string(),
      failing_since: z.iso.datetime(),
    }),
  },
  'alert.raised': {
    summary: 'The condition of an alert rule began to hold',
    data: z.strictObject({ object: z.literal('alert.raised'), ...ruleEvent, resolved_at: z.null() }),
  },
  'alert.resolved': {
    summary: 'The condition of an alert rule no longer holds',
    data: z.strictObject({ object: z.literal('alert.resolved'), ...ruleEvent, resolved_at: z.iso.datetime() }),
  },
  'webhook.test': {
    summary: 'A test event sent from the dashboard',
    data: z.strictObject({ object: z.literal('webhook.test'), organisation_id: z.string() }),
  },
}

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
    Object.entries(events).map(([type, event]) => [type, { post: post(type, event, components) }]),
  )
}

function post(type: string, { summary, data }: Event, components: Components): Json {
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
