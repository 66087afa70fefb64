import { z } from 'zod'
import { chatCompletion } from './answers.ts'
import { jobError, jobWebhook } from './media-answers.ts'

const seconds = z.int().nullable().describe('Unix seconds.')

/** What the routes of delayed jobs answer. */
export const delayedJob = z
  .strictObject({
    id: z.string(),
    object: z.literal('job'),
    status: z.enum(['queued', 'in_progress', 'completed', 'failed', 'cancelled', 'expired']),
    completion_window: z.string().describe('`1h` or `6h`.'),
    created_at: z.int().describe('Unix seconds.'),
    expires_at: z.int().describe('The end of the window; of a completed job, when its result is deleted.'),
    started_at: seconds,
    completed_at: seconds.describe('When it ended, however it did.'),
    result: chatCompletion.nullable().describe('The answer of a completed job; always null in lists.'),
    error: jobError.nullable(),
    cost_usd: z.number().nullable().describe('USD charged; null until the job is over.'),
    metadata: z.record(z.string(), z.string()),
    webhook: jobWebhook.nullable(),
  })
  .meta({ id: 'AsyncJob' })
