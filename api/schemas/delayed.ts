import { z } from 'zod'
import { chatCompletion } from './core.ts'
import { jobError, jobWebhook } from './jobs.ts'
import { message } from './messages.ts'
import { responseObject } from './responses.ts'

const seconds = z.int().nullable().describe('Unix seconds.')

/** Response schemas of delayed jobs. */
export const delayedJob = z
  .strictObject({
    id: z.string(),
    object: z.literal('job'),
    status: z.enum(['queued', 'in_progress', 'completed', 'failed', 'cancelled', 'expired']),
    completion_window: z.string().describe('`1h` or `6h`.'),
    created_at: z.int().describe('Unix seconds.'),
    expires_at: z.int().describe('The end of the window; for a completed job, when its result is deleted.'),
    started_at: seconds,
    completed_at: seconds.describe('When the job ended, whatever its outcome.'),
    result: z
      .union([chatCompletion, responseObject, message])
      .nullable()
      .describe('The answer of a completed job, in the format of its endpoint; always null in lists.'),
    error: jobError.nullable(),
    cost_usd: z.number().nullable().describe('USD charged; null until the job is over.'),
    metadata: z.record(z.string(), z.string()),
    webhook: jobWebhook.nullable(),
  })
  .meta({ id: 'AsyncJob' })
