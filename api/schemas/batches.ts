import { z } from 'zod'
import { jobWebhook } from './jobs.ts'

export const routings = ['auto', 'provider', 'gateway'] as const

const seconds = z.int().nullable().describe('Unix seconds.')
/** Response schemas of batches. */
export const batchAnswer = z
  .strictObject({
    id: z.string(),
    object: z.literal('batch'),
    endpoint: z.string(),
    model: z.string().nullable().describe('The model of all lines; null if there are several.'),
    errors: z
      .strictObject({
        object: z.literal('list'),
        data: z.array(
          z.strictObject({
            code: z.string(),
            line: z.int().nullable(),
            message: z.string(),
            param: z.string().nullable(),
          }),
        ),
      })
      .nullable()
      .describe('Validation errors of a `failed` batch: the first 100.'),
    input_file_id: z.string(),
    completion_window: z.literal('24h'),
    status: z.enum([
      'validating',
      'failed',
      'in_progress',
      'finalizing',
      'completed',
      'expired',
      'cancelling',
      'cancelled',
    ]),
    output_file_id: z.string().nullable(),
    error_file_id: z.string().nullable(),
    created_at: z.int().describe('Unix seconds.'),
    in_progress_at: seconds,
    expires_at: seconds,
    finalizing_at: seconds,
    completed_at: seconds,
    failed_at: seconds,
    expired_at: seconds,
    cancelling_at: seconds,
    cancelled_at: seconds,
    request_counts: z.strictObject({ total: z.int(), completed: z.int(), failed: z.int() }),
    usage: z.strictObject({
      input_tokens: z.int(),
      input_tokens_details: z.strictObject({ cached_tokens: z.int() }),
      output_tokens: z.int(),
      output_tokens_details: z.strictObject({ reasoning_tokens: z.int() }),
      total_tokens: z.int(),
    }),
    cost_usd: z.number().describe('USD charged so far.'),
    metadata: z.record(z.string(), z.string()).nullable(),
    batch_routing: z.enum(routings),
    provider: z.string().nullable().describe('The provider whose batch API runs it; null if the gateway does.'),
    webhook: jobWebhook.nullable(),
  })
  .meta({ id: 'Batch' })
