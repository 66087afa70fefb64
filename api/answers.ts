import { z } from 'zod'
import { errorCodes } from '../shared/base/errors.ts'
import { imageEvent, imagesAnswer, transcriptAnswer, transcriptEvent } from './instant-answers.ts'

/** The shapes of what routes answer, for the OpenAPI document and the tests that hold routes to it. */

export const errorAnswer = z
  .strictObject({
    error: z.strictObject({
      message: z.string(),
      type: z.string(),
      code: z.enum(errorCodes as [string, ...string[]]),
      param: z.string().nullable(),
      metadata: z.record(z.string(), z.unknown()).optional(),
    }),
  })
  .meta({ id: 'Error' })

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
        message: z.looseObject({ role: z.literal('assistant'), content: z.string().nullish() }),
        finish_reason: z.string(),
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
        delta: z.looseObject({ role: z.literal('assistant').optional(), content: z.string().nullish() }),
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
    usage: z.looseObject({ prompt_tokens: count, total_tokens: count, cost: usd }),
  })
  .meta({ id: 'Embeddings' })

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

export const wallet = z
  .strictObject({
    object: z.literal('wallet'),
    balance_usd: usd,
    available_usd: usd,
    reserved_usd: usd.describe('In-flight work.'),
    held_usd: usd.describe('ACH deposits not released yet.'),
    held_release_at: z.iso.datetime().nullable(),
  })
  .meta({ id: 'Wallet' })

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

export const key = z
  .strictObject({
    hash: z.string(),
    name: z.string(),
    environment: z.enum(['live', 'test']),
    mode: z.enum(['cost', 'balanced', 'quality']),
    rpm_limit: z.int().nullable(),
    tpm_limit: z.int().nullable(),
    monthly_spend_cap_usd: usd.nullable(),
    model_allowlist: z.array(z.string()).nullable(),
    scopes: z.string(),
    expires_at: z.iso.datetime().nullable(),
    prefix: z.string(),
    last4: z.string(),
    status: z.enum(['active', 'revoked', 'expired']),
    spend_month_usd: usd,
    created_at: z.iso.datetime(),
    updated_at: z.iso.datetime(),
    last_used_at: z.iso.datetime().nullable(),
  })
  .meta({ id: 'Key' })

export const page = <T extends z.ZodType>(row: T) =>
  z.strictObject({
    object: z.literal('list'),
    data: z.array(row),
    has_more: z.boolean(),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
  })
