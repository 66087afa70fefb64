import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import type { BatchServices } from '../../shared/batches/batch-services.ts'
import type { Batch } from '../../shared/batches/batches.ts'
import { cancelBatch } from '../../shared/batches/cancel.ts'
import { createBatch } from '../../shared/batches/create.ts'
import { presentBatch } from '../../shared/batches/present.ts'
import { type BatchEndpoint, batchEndpoints } from '../../shared/batches/request.ts'
import type { ResolvedKey } from '../../shared/keys/policies.ts'
import { common, exactlyOneOf } from '../../shared/kinds/media.ts'
import { type Endpoint, endpoint } from '../endpoint.ts'
import { batchAnswer, routings } from '../schemas/batches.ts'
import { page } from '../schemas/core.ts'
import { paging, readPage } from './paging.ts'

const shared = { tag: 'Batches', access: { scope: '*' }, free: true } as const
const maxInline = 1_000

const paths = Object.keys(batchEndpoints) as [BatchEndpoint, ...BatchEndpoint[]]

const newBatch = z
  .strictObject({
    input_file_id: z
      .string()
      .min(1)
      .max(100)
      .refine(id => !id.includes('\0'), 'contains a NUL character')
      .optional()
      .describe('The id of an uploaded file of requests, one per line.'),
    requests: z
      .array(
        z.record(z.string(), z.unknown()).meta({
          id: 'BatchLine',
          description: 'A line of a batch’s input: `custom_id`, `method` (`POST`), `url` and `body`.',
        }),
      )
      .min(1)
      .max(maxInline)
      .optional()
      .describe('The requests, inline instead of a file: objects with the fields of its lines.'),
    endpoint: z
      .enum(paths)
      .optional()
      .describe('The endpoint of every request, equal to each line’s `url`. Required with a file.'),
    completion_window: z.literal('24h').default('24h').describe('The time frame within which the batch is processed.'),
    metadata: common.metadata.nullable(),
    webhook_url: common.webhook_url.describe('The URL that receives the batch’s webhook events.'),
    output_expires_after: z
      .strictObject({ anchor: z.literal('created_at'), seconds: z.int().min(3_600).max(2_592_000) })
      .optional()
      .describe('The retention of the output and error file, from when they are written.'),
    batch_routing: z
      .enum(routings)
      .default('auto')
      .describe(
        'How the lines are run: `gateway` sends each request individually; `provider` uses the provider’s own batch API, which requires the same model in all lines; `auto` uses it if possible.',
      ),
  })
  .check(({ value, issues }) => {
    const missing = (path: string) =>
      issues.push({ code: 'invalid_type', expected: 'string', path: [path], input: undefined, message: 'is required' })
    if (value.requests === undefined && value.input_file_id === undefined) missing('input_file_id')
    else if (value.requests !== undefined && value.input_file_id !== undefined)
      issues.push({
        code: 'custom',
        path: ['requests'],
        input: value,
        message: 'send either `input_file_id` or `requests`',
      })
    else if (value.requests === undefined && value.endpoint === undefined) missing('endpoint')
  })
  .meta({ id: 'CreateBatchRequest', oneOf: exactlyOneOf(['input_file_id', 'endpoint'], ['requests']) })

async function find(services: BatchServices, { policy }: ResolvedKey, id: string): Promise<Batch> {
  const batch = await services.batches.find(id, policy)
  if (batch) return batch
  throw new GatewayError('not_found', 'No such batch.', { param: 'id' })
}

/** The endpoint of a batch with inline requests: that of the first request. */
function inlineEndpoint(requests: readonly Record<string, unknown>[]): BatchEndpoint {
  const url = requests[0]?.url
  if (typeof url === 'string' && Object.hasOwn(batchEndpoints, url)) return url as BatchEndpoint
  throw new GatewayError('invalid_request', `\`requests.0.url\` must be one of ${paths.join(', ')}.`, {
    param: 'requests.0.url',
  })
}

export const batchRoutes: Endpoint[] = [
  endpoint({
    ...shared,
    method: 'post',
    path: '/v1/batches',
    operationId: 'createBatch',
    summary: 'Create a batch',
    description:
      'Runs up to 50,000 requests at half the price within 24 hours. Every input line results in exactly one line of the output file or the error file.',
    body: newBatch,
    example: {
      requests: [
        {
          custom_id: 'a',
          method: 'POST',
          url: '/v1/chat/completions',
          body: { model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Hello' }] },
        },
      ],
      completion_window: '24h',
    },
    answers: { 200: { description: 'The batch, whose input is being validated.', schema: batchAnswer } },
    errors: ['not_found', 'url_not_allowed', 'quota_exceeded'],
    async handle({ services, apiKey, body, origin, keep }) {
      const { requests, input_file_id: fileId, batch_routing: routing, output_expires_after: life } = body
      const batch = await createBatch(
        services,
        apiKey.policy,
        {
          endpoint: body.endpoint ?? inlineEndpoint(requests!),
          input: requests ? { requests } : { fileId: fileId! },
          routing,
          metadata: body.metadata ?? null,
          webhookUrl: body.webhook_url ?? null,
          outputLifeSeconds: life?.seconds ?? null,
        },
        origin,
        async (tx, batch) => keep(tx, await presentBatch(services, batch)),
      )
      return presentBatch(services, batch)
    },
  }),
  endpoint({
    ...shared,
    method: 'get',
    path: '/v1/batches',
    operationId: 'listBatches',
    summary: 'List batches',
    query: z.strictObject(paging),
    answers: { 200: { description: 'A page of batches.', schema: page(batchAnswer, 'BatchList') } },
    async handle({ services, apiKey, query }) {
      const present = (rows: Batch[]) => Promise.all(rows.map(row => presentBatch(services, row)))
      return readPage(query, page => services.batches.list(apiKey.policy, page), present)
    },
  }),
  endpoint({
    ...shared,
    method: 'get',
    path: '/v1/batches/{id}',
    operationId: 'getBatch',
    summary: 'Retrieve a batch',
    answers: { 200: { description: 'The batch.', schema: batchAnswer } },
    errors: ['not_found'],
    async handle({ services, apiKey, params }) {
      return presentBatch(services, await find(services, apiKey, params.id!))
    },
  }),
  endpoint({
    ...shared,
    method: 'post',
    path: '/v1/batches/{id}/cancel',
    operationId: 'cancelBatch',
    summary: 'Cancel a batch',
    description:
      'Finished lines are kept and billed; all others end up in the error file. Returns 409 once the batch is over.',
    answers: { 200: { description: 'The batch, which is being cancelled.', schema: batchAnswer } },
    errors: ['not_found', 'not_cancellable'],
    async handle({ services, apiKey, params }) {
      const { id } = await find(services, apiKey, params.id!)
      return presentBatch(services, await cancelBatch(services, id))
    },
  }),
]
