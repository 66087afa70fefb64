import { z } from 'zod'
import { directKinds } from '../kinds/index.ts'
import { common } from '../kinds/media.ts'
import type { DelayedKind } from './delayed-row.ts'

/** The endpoints whose requests can be delayed, and the kind of each. */
export const delayedEndpoints = {
  '/v1/chat/completions': 'chat',
  '/v1/responses': 'responses',
  '/v1/messages': 'messages',
} as const satisfies Record<string, DelayedKind>
export type DelayedEndpoint = keyof typeof delayedEndpoints

const shared = {
  completion_window: z.enum(['1h', '6h']).describe('How long it may take. The longer, the cheaper.'),
  webhook_url: common.webhook_url,
  metadata: common.metadata,
}

/** `POST /v1/jobs`. */
export const delayedRequest = z
  .discriminatedUnion('endpoint', [
    z.strictObject({
      endpoint: z
        .literal('/v1/chat/completions')
        .optional()
        .describe('The endpoint that the request is for; `/v1/chat/completions` by default.'),
      body: unstreamed(directKinds.chat).describe('The body of a chat completion.'),
      ...shared,
    }),
    z.strictObject({
      endpoint: z.literal('/v1/responses'),
      body: unstreamed(directKinds.responses).describe('The body of a response.'),
      ...shared,
    }),
    z.strictObject({
      endpoint: z.literal('/v1/messages'),
      body: unstreamed(directKinds.messages).describe('The body of a message.'),
      ...shared,
    }),
  ])
  .meta({ id: 'CreateJobRequest' })
export type DelayedRequest = z.output<typeof delayedRequest>
export type CompletionWindow = DelayedRequest['completion_window']

function unstreamed<T extends z.ZodType<{ stream?: boolean | null | undefined }>>(body: T): T {
  return body.refine(({ stream }) => stream !== true, {
    path: ['stream'],
    message: 'must not be true: a delayed answer is not streamed',
  })
}

const hourMs = 3_600_000
export const windowsMs: Record<CompletionWindow, number> = { '1h': hourMs, '6h': 6 * hourMs }
