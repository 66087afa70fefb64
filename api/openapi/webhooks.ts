import { z } from 'zod'
import { delayedJob } from '../async-answers.ts'
import { batchAnswer } from '../batch-answers.ts'
import { jobAnswer, meshAnswer } from '../media-answers.ts'
import type { Components, Json } from './components.ts'

const usd = z.number()
const keyOfAlert = z
  .strictObject({ hash: z.string(), name: z.string(), prefix: z.string(), last4: z.string() })
  .meta({ id: 'AlertedKey' })

const job = z.union([jobAnswer, meshAnswer, delayedJob]).describe('The job, as its GET answers it.')
const batch = batchAnswer.describe('The batch, as its GET answers it.')

type Event = { summary: string; data: z.ZodType }

/** Every event that is posted, by its type. */
const events: Record<string, Event> = {
  'job.completed': { summary: 'A job completed', data: job },
  'job.failed': { summary: 'A job failed', data: job },
  'job.cancelled': { summary: 'A job was cancelled', data: job },
  'job.expired': { summary: 'A job was not finished in time', data: job },
  'batch.completed': { summary: 'A batch completed', data: batch },
  'batch.failed': { summary: 'The input of a batch is wrong', data: batch },
  'batch.cancelled': { summary: 'A batch was cancelled', data: batch },
  'batch.expired': { summary: 'A batch was not finished in time', data: batch },
  'key.spend_alert': {
    summary: 'A key has spent a share of its monthly cap',
    data: z.strictObject({
      object: z.literal('key.spend_alert'),
      key: keyOfAlert,
      percent: z.int().describe('50, 80 or 100.'),
      cap_usd: usd,
      spent_usd: usd,
      month: z.string().describe('In UTC, such as `2026-11`.'),
      resets_at: z.iso.datetime(),
    }),
  },
  'key.blocked': {
    summary: 'A key was blocked because a request cost more than was reserved for it',
    data: z.strictObject({
      object: z.literal('key.blocked'),
      key: keyOfAlert,
      reference: z.string().describe('The id of the request.'),
      excess_usd: usd,
    }),
  },
  'wallet.low_balance': {
    summary: 'The balance fell below its threshold',
    data: z.strictObject({
      object: z.literal('wallet.low_balance'),
      balance_usd: usd,
      held_usd: usd,
      low_balance_usd: usd.describe('The threshold.'),
    }),
  },
  'webhook.test': {
    summary: 'A test event, sent by hand from the dashboard',
    data: z.strictObject({ object: z.literal('webhook.test'), organisation_id: z.string() }),
  },
}

const signature = [
  { name: 'webhook-id', description: 'The id of the event, the same at every attempt.' },
  { name: 'webhook-timestamp', description: 'When this attempt was made, in Unix seconds.' },
  {
    name: 'webhook-signature',
    description: '`v1,` and the HMAC-SHA256 of id, timestamp and body, in base64; several are separated by spaces.',
  },
].map(header => ({ ...header, in: 'header', required: true, schema: { type: 'string' } }))

/** The webhooks of the document: what the gateway posts, and what it makes of the answer. */
export function webhooks(components: Components): Json {
  return Object.fromEntries(
    Object.entries(events).map(([type, event]) => [type, { post: post(type, event, components) }]),
  )
}

function post(type: string, { summary, data }: Event, components: Components): Json {
  const name = type.replaceAll(/(?:^|[._])(\w)/g, (_, letter: string) => letter.toUpperCase())
  const event = z
    .strictObject({
      type: z.literal(type),
      timestamp: z.iso.datetime().describe('When it happened.'),
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
      '2XX': { description: 'Delivered.' },
      410: { description: 'No longer wanted: the event is not sent again.' },
    },
  }
}
