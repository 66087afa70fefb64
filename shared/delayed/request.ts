import { z } from 'zod'
import { directKinds } from '../kinds/index.ts'
import { common } from '../kinds/media.ts'

/** `POST /v1/jobs` (contract §7). */
export const delayedRequest = z
  .strictObject({
    body: directKinds.chat
      .refine(({ stream }) => stream !== true, { path: ['stream'], message: 'a delayed answer cannot be streamed' })
      .describe('The body of a chat completion.'),
    completion_window: z.enum(['1h', '6h']).describe('How long it may take. The longer, the cheaper.'),
    webhook_url: common.webhook_url,
    metadata: common.metadata,
  })
  .meta({ id: 'CreateJobRequest' })
export type DelayedRequest = z.output<typeof delayedRequest>
export type CompletionWindow = DelayedRequest['completion_window']

const hourMs = 3_600_000
export const windowsMs: Record<CompletionWindow, number> = { '1h': hourMs, '6h': 6 * hourMs }
