import { z } from 'zod'
import { errorCodes } from '../../shared/base/errors.ts'

/** Responses of the routes in the format of OpenAI's Responses API. */

export const responsesError = z
  .strictObject({
    error: z.strictObject({
      message: z.string().describe('A human-readable description of the error, and how to resolve it.'),
      type: z.string().describe('The category of the error.'),
      code: z
        .enum(['insufficient_quota', ...errorCodes])
        .describe('A stable identifier; `insufficient_quota` where credits or spend limits are used up.'),
      param: z.string().nullable().describe('The invalid field, as a path such as `input.0.content`.'),
      failed_generation: z
        .string()
        .optional()
        .describe('What the model wrote, where its server could not use it and shows it.'),
      metadata: z
        .record(z.string(), z.unknown())
        .optional()
        .describe('Details that depend on the code. For `insufficient_quota`, `code` is the gateway’s own.'),
    }),
  })
  .meta({ id: 'ResponsesErrorResponse', description: 'Every error of these routes has this shape.' })

const count = z.int().min(0)
const usage = z
  .looseObject({
    input_tokens: count.describe('Tokens of the prompt, including cached ones.'),
    input_tokens_details: z.looseObject({ cached_tokens: count }).optional(),
    output_tokens: count.describe('Tokens of the answer, including those of hidden reasoning.'),
    output_tokens_details: z.looseObject({ reasoning_tokens: count }).optional(),
    total_tokens: count,
  })
  .meta({ id: 'ResponseUsage' })

/** An item of a conversation: its fields depend on its type. */
export const responseItem = z
  .looseObject({
    id: z.string(),
    type: z.string().describe('`message`, `reasoning`, `function_call`, `function_call_output` and others.'),
  })
  .meta({ id: 'ResponseItem' })

export const conversation = z
  .strictObject({
    id: z.string(),
    object: z.literal('conversation'),
    created_at: z.int().describe('Unix time in seconds.'),
    metadata: z.record(z.string(), z.string()),
  })
  .meta({ id: 'Conversation' })

export const inputTokens = z
  .strictObject({ object: z.literal('response.input_tokens'), input_tokens: z.int().min(0) })
  .meta({ id: 'ResponseInputTokens' })

export const compactedResponse = z
  .strictObject({
    id: z.string(),
    object: z.literal('response.compaction'),
    created_at: z.number().describe('Unix time in seconds.'),
    output: z
      .array(z.looseObject({ type: z.string() }))
      .describe('Messages of the user, then the `compaction`: the `input` of the next request, before its new items.'),
    usage: usage.nullish(),
  })
  .meta({ id: 'CompactedResponse' })

export const responseObject = z
  .looseObject({
    id: z.string(),
    object: z.literal('response'),
    created_at: z.number().describe('Unix time in seconds.'),
    status: z
      .string()
      .describe(
        '`completed`, or `incomplete` where a limit or a filter ended the answer. In the background also `queued`, `in_progress`, `failed` and `cancelled`.',
      ),
    model: z.string(),
    output: z
      .array(z.looseObject({ type: z.string().describe('`message`, `reasoning`, `function_call` and others.') }))
      .describe('The items of the answer. Append them to the `input` of the next request.'),
    incomplete_details: z.looseObject({ reason: z.string().optional() }).nullish(),
    error: z.looseObject({ code: z.string().nullish(), message: z.string() }).nullish(),
    usage: usage.nullish(),
    store: z.boolean().nullish().describe('Whether the response is stored.'),
    previous_response_id: z.string().nullish(),
    conversation: z.looseObject({ id: z.string() }).nullish(),
  })
  .meta({ id: 'Response' })

export const responseEvent = z
  .looseObject({
    type: z
      .string()
      .describe('Also the name of the event: `response.created`, `response.output_text.delta`, `response.failed` …'),
    sequence_number: count.optional(),
  })
  .meta({
    id: 'ResponseStreamEvent',
    description:
      'An event of a streamed response. The last one is `response.completed`, `response.incomplete` or `response.failed`, before which comes `error`; `data: [DONE]` follows.',
  })
