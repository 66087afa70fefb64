import { z } from 'zod'
import { errorCodes } from '../shared/base/errors.ts'
import { toolCall } from '../shared/kinds/chat.ts'
import { imageEvent, imagesAnswer, transcriptAnswer, transcriptEvent } from './instant-answers.ts'

/** The shapes of what routes answer, for the OpenAPI document and the tests that hold routes to it. */

export const errorAnswer = z
  .strictObject({
    error: z.strictObject({
      message: z.string().describe('What is wrong, and what to do.'),
      type: z.string().describe('The family of the code.'),
      code: z.enum(errorCodes as [string, ...string[]]).describe('The stable name to program against.'),
      param: z.string().nullable().describe('The field at fault, as a path such as `messages.0.content`.'),
      metadata: z.record(z.string(), z.unknown()).optional().describe('Figures of some codes.'),
    }),
  })
  .meta({ id: 'ErrorResponse', description: 'Every error has this shape.' })

const count = z.int().min(0)
const usd = z.number()

export const usage = z
  .looseObject({
    prompt_tokens: count,
    completion_tokens: count,
    total_tokens: count,
    prompt_tokens_details: z.looseObject({
      cached_tokens: count,
      cache_write_tokens: count.optional(),
      audio_tokens: count,
      image_tokens: count.optional(),
    }),
    completion_tokens_details: z.looseObject({
      reasoning_tokens: count,
      audio_tokens: count,
      image_tokens: count.optional(),
    }),
    cost: usd.describe('USD charged for this request.'),
    estimated: z.boolean().optional().describe('True when the provider gave no usage and the gateway counted.'),
  })
  .meta({ id: 'Usage' })

const generatedImage = z
  .looseObject({
    type: z.literal('image_url'),
    image_url: z.looseObject({ url: z.string().describe('A `data:` URI.') }),
  })
  .meta({ id: 'GeneratedImage' })

export const chatCompletion = z
  .looseObject({
    id: z.string(),
    object: z.literal('chat.completion'),
    created: z.int(),
    model: z.string(),
    provider: z.string(),
    choices: z.array(
      z.looseObject({
        index: z.int(),
        message: z
          .looseObject({
            role: z.literal('assistant'),
            content: z.string().nullish(),
            refusal: z.string().nullish(),
            reasoning_content: z.string().nullish().describe('What the model thought, where the provider shows it.'),
            tool_calls: z.array(toolCall).nullish(),
            images: z.array(generatedImage).nullish(),
            audio: z
              .looseObject({
                id: z.string(),
                data: z.string().describe('The sound in base64.'),
                expires_at: z.int(),
                transcript: z.string(),
              })
              .nullish(),
          })
          .meta({ id: 'ChatCompletionMessage' }),
        logprobs: z.looseObject({}).nullish(),
        finish_reason: z.string().describe('`stop`, `length`, `tool_calls` or `content_filter`.'),
      }),
    ),
    usage,
  })
  .meta({ id: 'ChatCompletion' })

export const completion = z
  .looseObject({
    id: z.string(),
    object: z.literal('text_completion'),
    created: z.int(),
    model: z.string(),
    provider: z.string(),
    choices: z.array(z.looseObject({ index: z.int(), text: z.string(), finish_reason: z.string().nullable() })),
    usage,
  })
  .meta({ id: 'Completion' })

const streamError = errorAnswer.shape.error
  .optional()
  .describe('An answer that breaks off ends with one event that has this, and without `[DONE]`.')

const streamUsage = usage
  .nullish()
  .describe(
    'On the last piece: the one that finishes the answer, or one without choices if `include_usage` asked for it.',
  )

/** The data of each event of a streamed chat completion but the last, which is `[DONE]`. */
const chatChunk = z
  .looseObject({
    id: z.string(),
    object: z.literal('chat.completion.chunk'),
    created: z.int(),
    model: z.string(),
    provider: z.string().optional(),
    choices: z.array(
      z.looseObject({
        index: z.int(),
        delta: z
          .looseObject({
            role: z.literal('assistant').optional(),
            content: z.string().nullish(),
            refusal: z.string().nullish(),
            reasoning_content: z.string().nullish(),
            tool_calls: z
              .array(
                z.looseObject({
                  index: z.int(),
                  id: z.string().optional(),
                  type: z.literal('function').optional(),
                  function: z.looseObject({ name: z.string().optional(), arguments: z.string().optional() }).optional(),
                }),
              )
              .nullish(),
            images: z.array(generatedImage).nullish(),
            audio: z
              .looseObject({
                id: z.string().optional(),
                data: z.string().optional(),
                transcript: z.string().optional(),
                expires_at: z.int().optional(),
              })
              .nullish(),
          })
          .meta({ id: 'ChatCompletionDelta' }),
        logprobs: z.looseObject({}).nullish(),
        finish_reason: z.string().nullish(),
      }),
    ),
    usage: streamUsage,
    error: streamError,
  })
  .meta({ id: 'ChatCompletionChunk' })

const completionChunk = z
  .looseObject({
    id: z.string(),
    object: z.literal('text_completion'),
    created: z.int(),
    model: z.string(),
    provider: z.string().optional(),
    choices: z.array(
      z.looseObject({ index: z.int(), text: z.string().optional(), finish_reason: z.string().nullish() }),
    ),
    usage: streamUsage,
    error: streamError,
  })
  .meta({ id: 'CompletionChunk' })

/** By the schema of a whole answer: that of the pieces it is streamed in. */
export const streamed: ReadonlyMap<z.ZodType, z.ZodType> = new Map<z.ZodType, z.ZodType>([
  [chatCompletion, chatChunk],
  [completion, completionChunk],
  [imagesAnswer, imageEvent],
  [transcriptAnswer, transcriptEvent],
])

export const embeddings = z
  .looseObject({
    object: z.literal('list'),
    model: z.string(),
    provider: z.string(),
    data: z.array(
      z.looseObject({
        object: z.literal('embedding'),
        index: z.int(),
        embedding: z.union([z.array(z.number()), z.string()]),
      }),
    ),
    usage: z
      .looseObject({ prompt_tokens: count, total_tokens: count, cost: usd.describe('USD charged for this request.') })
      .meta({ id: 'EmbeddingUsage' }),
  })
  .meta({ id: 'EmbeddingList' })

export const routingDecision = z
  .strictObject({
    object: z.literal('routing.decision'),
    model: z.string(),
    provider: z.string(),
    mode: z.enum(['cost', 'balanced', 'quality']),
    reason: z.string(),
    estimated_cost_usd: usd,
    candidates: z.array(
      z.strictObject({
        model: z.string(),
        provider: z.string().nullable(),
        score: z.number().nullable(),
        quality: z.number().nullable(),
        estimated_cost_usd: usd.nullable(),
        latency_ms: z.number().nullable(),
        excluded: z.string().nullable().describe('Why this candidate is out; null for one that is in.'),
      }),
    ),
    fallbacks: z.array(z.string()).describe('What is tried next, as `model@provider`.'),
  })
  .meta({ id: 'RoutingDecision' })

export const modelRow = z
  .looseObject({
    id: z.string(),
    object: z.literal('model'),
    created: z.int(),
    owned_by: z.string(),
    type: z.string(),
    endpoint: z.string(),
    aliases: z.array(z.string()).describe('Further names that a request may give the model.'),
    name: z.string(),
    display_name: z.string().describe('The same as `name`.'),
    description: z.string(),
    context_length: z.int().nullable(),
    context_window: z.int().nullable().describe('The same as `context_length`.'),
    max_output_tokens: z.int().nullable(),
    input_modalities: z.array(z.string()),
    output_modalities: z.array(z.string()),
    supported_parameters: z.array(z.string()),
    pricing: z
      .record(z.string(), z.string())
      .describe('USD per unit as decimal strings, the service’s margin included.'),
    providers: z.array(z.string()),
    quality: z.number().nullable(),
    expires_on: z.string().nullable(),
  })
  .meta({ id: 'Model' })

export const modelList = z
  .strictObject({ object: z.literal('list'), data: z.array(modelRow) })
  .meta({ id: 'ModelList' })

export const generation = z
  .strictObject({
    id: z.string(),
    object: z.literal('generation'),
    upstream_id: z.string().nullable(),
    request_id: z.string(),
    created_at: z.iso.datetime(),
    type: z.string(),
    environment: z.enum(['live', 'test']),
    model: z.string(),
    provider: z.string().nullable(),
    mode: z.string().nullable(),
    status: z.int(),
    error_code: z.string().nullable(),
    finish_reason: z.string().nullable(),
    streamed: z.boolean(),
    attempts: z.int(),
    usage: z.strictObject({
      prompt_tokens: count,
      completion_tokens: count,
      cached_tokens: count,
      reasoning_tokens: count,
      estimated: z.boolean(),
    }),
    cost_usd: usd,
    first_byte_ms: z.int().nullable(),
    duration_ms: z.int(),
  })
  .meta({ id: 'Generation' })

/** A page of rows. */
export const page = <T extends z.ZodType>(row: T, id: string) =>
  z
    .strictObject({
      object: z.literal('list'),
      data: z.array(row),
      has_more: z.boolean(),
      first_id: z.string().nullable(),
      last_id: z.string().nullable().describe('Send it as `after` for the next page.'),
    })
    .meta({ id })
