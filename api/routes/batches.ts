import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { cancelBatch } from '../../shared/batches/cancel.ts'
import { createBatch } from '../../shared/batches/create.ts'
import { presentBatch } from '../../shared/batches/present.ts'
import { type BatchEndpoint, batchEndpoints } from '../../shared/batches/request.ts'
import type { Batch } from '../../shared/jobs/batches.ts'
import type { Known } from '../../shared/keys/policies.ts'
import { common, exactlyOneOf } from '../../shared/kinds/media.ts'
import type { Services } from '../../shared/services.ts'
import { page } from '../answers.ts'
import { batchAnswer, routings } from '../batch-answers.ts'
import { type Endpoint, endpoint } from '../endpoint.ts'
import { admitFree } from '../middleware/key.ts'
import { pageOf, paging } from './paging.ts'

const shared = { tag: 'Batches', access: { scope: '*' } } as const
const mostInline = 1_000

const paths = Object.keys(batchEndpoints) as [BatchEndpoint, ...BatchEndpoint[]]

const newBatch = z
  .strictObject({
    input_file_id: z
      .string()
      .min(1)
      .max(100)
      .refine(id => !id.includes('\0'), 'has a NUL character')
      .optional()
      .describe('A file of requests, one per line.'),
    requests: z
      .array(
        z.record(z.string(), z.unknown()).meta({
          id: 'BatchLine',
          description: 'A line of a batch’s input: `custom_id`, `method` (`POST`), `url` and `body`.',
        }),
      )
      .min(1)
      .max(mostInline)
      .optional()
      .describe('In place of a file: objects of the shape of its lines.'),
    endpoint: z.enum(paths).optional().describe('What every line’s `url` must be. Needed with a file.'),
    completion_window: z.literal('24h').default('24h').describe('How long the batch may take.'),
    metadata: common.metadata.nullable(),
    webhook_url: common.webhook_url.describe('Where the finished batch is pushed to.'),
    output_expires_after: z
      .strictObject({ anchor: z.literal('created_at'), seconds: z.int().min(3_600).max(2_592_000) })
      .optional()
      .describe('How long the output and error file are kept, from when they are written.'),
    batch_routing: z
      .enum(routings)
      .default('auto')
      .describe(
        'Who runs the lines: `gateway` sends each by itself; `provider` hands the batch to the provider’s own batch API, which needs one model in all lines; `auto` does that where it can.',
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

async function find(services: Services, { policy }: Known, id: string): Promise<Batch> {
  const batch = await services.batches.find(id, policy)
  if (batch) return batch
  throw new GatewayError('not_found', 'There is no such batch.', { param: 'id' })
}

/** The endpoint of a batch whose requests came with it: that of the first. */
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
      'Runs up to 50,000 requests at half the price within 24 hours. Every line of the input ends in exactly one of two files: the output, or the errors.',
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
    answers: { 200: { description: 'The batch; its input is validated next.', schema: batchAnswer } },
    errors: ['not_found', 'url_not_allowed', 'quota_exceeded'],
    async handle({ services, known, body, requestId, keep, ctx }) {
      ctx.set(await admitFree(services, known))
      const { requests, input_file_id: fileId, batch_routing: routing, output_expires_after: life } = body
      const batch = await createBatch(
        services,
        known.policy,
        {
          endpoint: body.endpoint ?? inlineEndpoint(requests!),
          input: requests ? { requests } : { fileId: fileId! },
          routing,
          metadata: body.metadata ?? null,
          webhookUrl: body.webhook_url ?? null,
          outputLifeSeconds: life?.seconds ?? null,
        },
        requestId,
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
    async handle({ services, known, query, ctx }) {
      ctx.set(await admitFree(services, known))
      const present = (rows: Batch[]) => Promise.all(rows.map(row => presentBatch(services, row)))
      return pageOf(query, page => services.batches.list(known.policy, page), present)
    },
  }),
  endpoint({
    ...shared,
    method: 'get',
    path: '/v1/batches/{id}',
    operationId: 'getBatch',
    summary: 'Retrieve a batch',
    answers: { 200: { description: 'The batch as it is now.', schema: batchAnswer } },
    errors: ['not_found'],
    async handle({ services, known, params, ctx }) {
      ctx.set(await admitFree(services, known))
      return presentBatch(services, await find(services, known, params.id!))
    },
  }),
  endpoint({
    ...shared,
    method: 'post',
    path: '/v1/batches/{id}/cancel',
    operationId: 'cancelBatch',
    summary: 'Cancel a batch',
    description:
      'What is finished is kept and billed; every other line ends in the error file. 409 once the batch is over.',
    answers: { 200: { description: 'The batch, being cancelled.', schema: batchAnswer } },
    errors: ['not_found', 'not_cancellable'],
    async handle({ services, known, params, ctx }) {
      ctx.set(await admitFree(services, known))
      const { id } = await find(services, known, params.id!)
      return presentBatch(services, await cancelBatch(services, id))
    },
  }),
]
