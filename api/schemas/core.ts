import { z } from 'zod'
import { errorCodes } from '../../shared/base/errors.ts'
import { serviceTiers } from '../../shared/base/service-tier.ts'
import { toolCall } from '../../shared/kinds/chat.ts'
import { shownReasoning } from '../../shared/kinds/reasoning.ts'
import { imageEvent, imagesAnswer, transcriptAnswer, transcriptEvent } from './media.ts'

/** Response schemas of routes, for the OpenAPI document and the tests that validate responses. */

export const errorAnswer = z
  .strictObject({
    error: z.strictObject({
      message: z.string().describe('A human-readable description of the error, and how to resolve it.'),
      type: z.string().describe('The category of the code.'),
      code: z.enum(errorCodes as [string, ...string[]]).describe('A stable identifier for programmatic handling.'),
      param: z.string().nullable().describe('The invalid field, as a path such as `messages.0.content`.'),
      failed_generation: z
        .string()
        .optional()
        .describe('What the model wrote, where its server could not use it and shows it.'),
      metadata: z.record(z.string(), z.unknown()).optional().describe('Additional figures of some codes.'),
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
      cache_write_tokens: count.optional().describe('Tokens written to the provider’s prompt cache.'),
      cache_write_1h_tokens: count
        .optional()
        .describe('Those of `cache_write_tokens` written for one hour, at a price of their own.'),
      audio_tokens: count,
      image_tokens: count.optional(),
    }),
    completion_tokens_details: z.looseObject({
      reasoning_tokens: count,
      audio_tokens: count,
      image_tokens: count.optional(),
    }),
    cost: usd.describe('USD charged for this request.'),
    cache_discount: usd
      .optional()
      .describe(
        'USD that the provider’s cache saved: what the same tokens cost without it, less `cost`. Negative where writing to it cost more than reading saved; absent where nothing was read or written.',
      ),
    service_tier: z
      .enum(serviceTiers)
      .optional()
      .describe('The service tier that the request was served and billed at; absent for the standard one.'),
    estimated: z
      .boolean()
      .optional()
      .describe('True if the provider returned no usage and the gateway counted the tokens.'),
  })
  .meta({ id: 'Usage' })

const generatedImage = z
  .looseObject({
    type: z.literal('image_url'),
    image_url: z.looseObject({ url: z.string().describe('A `data:` URI.') }),
  })
  .meta({ id: 'GeneratedImage' })

const annotation = z
  .looseObject({
    type: z.literal('url_citation'),
    url_citation: z.looseObject({
      start_index: z.int(),
      end_index: z.int(),
      url: z.string(),
      title: z.string(),
    }),
  })
  .meta({ id: 'UrlCitation' })

/** What models that search the web by themselves have found. */
const sources = {
  citations: z.array(z.string()).optional().describe('The URLs of `search_results`.'),
  search_results: z
    .array(
      z.looseObject({
        id: z.int().describe('The number in the marks of the text.'),
        title: z.string(),
        url: z.string(),
        date: z.string().optional(),
        last_updated: z.string().optional(),
        snippet: z.string().optional(),
        source: z.string().optional(),
      }),
    )
    .optional()
    .describe('The pages that the model has found. In a stream, the last chunk of the answer has them.'),
}

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
            ...shownReasoning,
            tool_calls: z.array(toolCall).nullish(),
            images: z.array(generatedImage).nullish(),
            annotations: z.array(annotation).nullish(),
            audio: z
              .looseObject({
                id: z.string(),
                data: z.string().describe('Base64-encoded audio.'),
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
    ...sources,
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
  .describe('The error that interrupted the stream, sent in its last event, without `[DONE]`.')

const streamUsage = usage
  .nullish()
  .describe('On the last chunk: the one that finishes the response, or one without choices if `include_usage` was set.')

/** The data of each event of a streamed chat completion, except the final `[DONE]`. */
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
            ...shownReasoning,
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
            annotations: z.array(annotation).nullish(),
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
    ...sources,
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

/** Maps the schema of a complete response to that of its stream events. */
export const streamed: ReadonlyMap<z.ZodType, z.ZodType> = new Map<z.ZodType, z.ZodType>([
  [chatCompletion, chatChunk],
  [completion, completionChunk],
  [imagesAnswer, imageEvent],
  [transcriptAnswer, transcriptEvent],
])

export const embeddings = z
  .looseObject({
    id: z.string(),
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
    arm: z
      .strictObject({ provider: z.string(), percent: z.number().describe('Its share of those that could be drawn.') })
      .optional()
      .describe('The provider that the weights of the key’s policy drew; absent without weights.'),
    alias: z
      .strictObject({
        name: z.string(),
        model: z.string(),
        percent: z.number().describe('The share of this model in the requests of the alias.'),
      })
      .optional()
      .describe(
        'The alias that the request names and that several models share, and the model that serves; absent for other names.',
      ),
    estimated_cost_usd: usd,
    candidates: z.array(
      z.strictObject({
        model: z.string(),
        provider: z.string().nullable(),
        score: z.number().nullable(),
        quality: z.number().nullable().describe('The catalog’s quality for the class of the request’s task.'),
        learned: z.number().describe('What feedback added to the quality; for `auto` only.'),
        estimated_cost_usd: usd.nullable(),
        latency_ms: z.number().nullable(),
        excluded: z.string().nullable().describe('Why this candidate was excluded; null if it is eligible.'),
      }),
    ),
    fallbacks: z.array(z.string()).describe('The fallbacks in order, as `model@provider`.'),
  })
  .meta({ id: 'RoutingDecision' })

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
    cached: z.boolean().describe('Whether the answer is from the response cache.'),
    attempts: z.int(),
    usage: z.strictObject({
      prompt_tokens: count,
      completion_tokens: count,
      cached_tokens: count.describe('Prompt tokens read from the provider’s cache.'),
      cache_write_tokens: count.describe('Prompt tokens written to the provider’s cache.'),
      cache_write_1h_tokens: count.describe('Those of `cache_write_tokens` that were written for one hour.'),
      reasoning_tokens: count,
      web_searches: count.describe('Searches of the web by the provider’s own tool, which are charged each.'),
      service_tier: z.enum(['standard', ...serviceTiers]).describe('What it was served and billed at.'),
      estimated: z.boolean(),
    }),
    cost_usd: usd,
    cache_discount_usd: usd.describe('USD that the provider’s cache saved; negative where writing to it cost more.'),
    is_byok: z
      .boolean()
      .describe('Whether an own provider key of the organisation served it, so that `cost_usd` is its fee.'),
    upstream_inference_cost: usd
      .nullable()
      .describe('USD that it costs at the provider by its price list; null unless `is_byok`.'),
    first_byte_ms: z.int().nullable().describe('The time to the first token of a stream. Null if it was not streamed.'),
    duration_ms: z.int(),
  })
  .meta({ id: 'Generation' })

/** A page of objects. */
export const page = <T extends z.ZodType>(row: T, id: string) =>
  z
    .strictObject({
      object: z.literal('list'),
      data: z.array(row),
      has_more: z.boolean(),
      first_id: z.string().nullable(),
      last_id: z.string().nullable().describe('The value of `after` for the next page.'),
    })
    .meta({ id })
