import { z } from 'zod'

/**
 * The object `provider` of a request and of a key's policy, as OpenRouter's clients send it. Source: @openrouter/sdk,
 * models/providerpreferences.ts and the models that it refers to. A member that is not in the list is refused: it may be a
 * restriction, which must not be ignored.
 */

/** The precisions of a model's weights that a request can choose from. */
export const quantizations = [
  'int4',
  'int8',
  'fp4',
  'mxfp4',
  'nvfp4',
  'fp6',
  'fp8',
  'mxfp8',
  'fp16',
  'bf16',
  'fp32',
] as const
export type Quantization = (typeof quantizations)[number]

/** The orders of `sort`. `exacto`, OpenRouter's order for calls of tools, is the gateway's own order. */
const sorts = ['price', 'throughput', 'latency', 'exacto'] as const

const names = z.array(z.string().max(200)).max(50)

/** A maximum of a price: OpenRouter's SDK sends it as text. */
const maxUsd = z.union([z.number().min(0).max(1_000_000), z.string().regex(/^\d{1,7}(\.\d{1,12})?$/)])

/** A threshold for the median, or one for each percentile. */
const percentile = z.number().positive().max(1_000_000).nullable().optional()
const threshold = z.union([
  z.number().positive().max(1_000_000),
  z.strictObject({ p50: percentile, p75: percentile, p90: percentile, p99: percentile }),
])

const restrictions = {
  order: names.optional().describe('Providers to try first, in this order.'),
  only: names.optional().describe('No other providers.'),
  ignore: names.optional().describe('None of these providers.'),
  allow_fallbacks: z
    .boolean()
    .optional()
    .describe('Whether providers that `order` does not name may be tried; true by default.'),
  require_parameters: z
    .boolean()
    .optional()
    .describe('True: only providers that take every parameter of the request; by default some are left out.'),
  data_collection: z
    .enum(['allow', 'deny'])
    .optional()
    .describe('`deny`: only providers that by their terms neither train on requests nor keep them for other purposes.'),
  zdr: z.boolean().optional().describe('True: only providers that keep nothing of a request (zero data retention).'),
  enforce_distillable_text: z
    .boolean()
    .optional()
    .describe('True: only models whose maker allows to train other models on their output.'),
  quantizations: z
    .array(z.enum([...quantizations, 'unknown']))
    .max(20)
    .optional()
    .describe('Only these precisions of the weights; `unknown` allows those that are not known.'),
  max_price: z
    .strictObject({
      prompt: maxUsd.optional().describe('USD per million tokens of the prompt.'),
      completion: maxUsd.optional().describe('USD per million tokens of the answer.'),
      request: maxUsd.optional().describe('USD per request, where a request has a price.'),
      image: maxUsd.optional().describe('USD per image, for requests with images.'),
      audio: maxUsd.optional().describe('USD per million tokens of audio, or per minute of it.'),
    })
    .optional()
    .describe('The highest prices, those of this service.'),
}

const wishes = {
  sort: z
    .union([
      z.enum(sorts),
      z.strictObject({
        by: z.enum(sorts).nullable().optional(),
        partition: z
          .enum(['model', 'none'])
          .nullable()
          .optional()
          .describe('`none`: also the providers of the models in `models` are sorted together.'),
      }),
    ])
    .optional()
    .describe('The order of providers that `order` does not name.'),
  preferred_min_throughput: threshold.optional().describe('Tokens a second; slower providers are tried last.'),
  preferred_max_latency: threshold
    .optional()
    .describe('Seconds to the first byte; providers that take longer are tried last.'),
}

const milliseconds = z.int().min(1).max(86_400_000)

/** The preferences of a request. `timeout_ms` is the gateway's own. */
export const providerPreferences = z
  .strictObject({
    ...restrictions,
    ...wishes,
    timeout_ms: z
      .union([milliseconds, z.strictObject({ total: milliseconds.optional(), first_token: milliseconds.optional() })])
      .optional()
      .describe(
        'How long the answer may take; or `total`, and `first_token`: how long each provider may take to its first token (without `stream`, to its answer) before the next one is tried.',
      ),
  })
  .meta({ id: 'ProviderPreferences' })
export type ProviderPreferences = z.infer<typeof providerPreferences>

/** The preferences of a request for media. `options` are OpenRouter's: fields for providers, which have no effect here. */
export const mediaProviderPreferences = providerPreferences
  .extend({
    options: z.record(z.string(), z.unknown()).optional().meta({ 'x-internal': true }),
  })
  .meta({ id: 'MediaProviderPreferences' })

const maxWeights = 50

/** The preferences of a key's policy: what its requests can only tighten. */
export const keyProviderPreferences = providerPreferences
  .omit({ timeout_ms: true })
  .extend({
    weights: z
      .record(z.string().min(1).max(200), z.number().min(0).max(1_000_000))
      .refine(weights => Object.keys(weights).length <= maxWeights, `must have at most ${maxWeights} providers`)
      .refine(weights => Object.values(weights).some(weight => weight > 0), 'must have a weight above 0')
      .optional()
      .describe(
        'The shares of providers among the requests of a named model without `order` and `sort`, by name. A session stays with its share.',
      ),
  })
  .meta({ id: 'KeyProviderPreferences' })
export type KeyProviderPreferences = z.infer<typeof keyProviderPreferences>

/** Excludes every provider: what is stored is not known here, and may be a restriction. */
const nothing: KeyProviderPreferences = { only: [] }

/** The preferences of a key's row; null = none. */
export function storedPreferences(stored: unknown): KeyProviderPreferences | null {
  if (stored === null || stored === undefined) return null
  return keyProviderPreferences.safeParse(stored).data ?? nothing
}
