import { z } from 'zod'
import { errorCodes } from '../../shared/base/errors.ts'

/** Responses of the routes in the format of Anthropic's Messages API. */

export const messagesError = z
  .strictObject({
    type: z.literal('error'),
    error: z.strictObject({
      type: z.string().describe('Anthropic’s category of the error.'),
      message: z.string().describe('A human-readable description of the error, and how to resolve it.'),
      code: z.enum(errorCodes as [string, ...string[]]).describe('A stable identifier for programmatic handling.'),
      param: z.string().nullable().describe('The invalid field, as a path such as `messages.0.content`.'),
      details: z
        .record(z.string(), z.unknown())
        .optional()
        .describe('Details of some errors, such as `error_code`, by which Anthropic’s clients go on.'),
    }),
    request_id: z.string(),
  })
  .meta({
    id: 'MessagesErrorResponse',
    description:
      'Every error of these routes has this shape. A provider’s own refusal of a request is passed on as it is.',
  })

const count = z.int().min(0)
const usage = z
  .looseObject({
    input_tokens: count.describe('Tokens of the prompt, without those read from or written to a cache.'),
    output_tokens: count,
    cache_creation_input_tokens: count.nullish(),
    cache_read_input_tokens: count.nullish(),
  })
  .meta({ id: 'MessagesUsage' })

export const message = z
  .looseObject({
    id: z.string(),
    type: z.literal('message'),
    role: z.literal('assistant'),
    model: z.string(),
    content: z.array(z.looseObject({ type: z.string().describe('`text`, `thinking`, `tool_use` and others.') })),
    stop_reason: z.string().nullable(),
    stop_sequence: z.string().nullable(),
    usage,
  })
  .meta({ id: 'Message' })

export const messageEvent = z
  .looseObject({
    type: z.string().describe('Also the name of the event: `message_start`, `content_block_delta`, `ping`, `error` …'),
  })
  .meta({ id: 'MessageStreamEvent', description: 'An event of a streamed Message. The last one is `message_stop`.' })

export const tokenCount = z.strictObject({ input_tokens: count }).meta({ id: 'MessageTokensCount' })
