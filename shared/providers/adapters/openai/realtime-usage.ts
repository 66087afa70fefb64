import { isObject } from '../../../base/is-object.ts'
import type { RealtimeUse } from '../../realtime-contract.ts'
import type { Json } from '../../toolkit/json-fields.ts'
import { readFrame } from '../../toolkit/read-frame.ts'
import { count, normaliseUsage } from './answer.ts'

/** The event in a provider's frame; null where it is no JSON object. Of a repeated member the last counts. */
export function eventOf(frame: Buffer): Json | null {
  return readFrame(frame)?.event ?? null
}

/** A provider's name of a model; null for anything else. */
export function nameOf(model: unknown): string | null {
  return typeof model === 'string' ? model : null
}

/** Sanity limit: a report above it is ignored. */
const maxTokens = 10_000_000
const maxSeconds = 86_400

/** A duration in seconds; null for invalid values. */
export function secondsOf(value: unknown): number | null {
  return typeof value === 'number' && value >= 0 && value <= maxSeconds ? value : null
}

/** The use that a usage reports, by duration or by tokens; empty if it is malformed. */
export function useOf(usage: unknown, upstreamModel: string | null): RealtimeUse[] {
  const seconds = isObject(usage) && usage.type === 'duration' ? secondsOf(usage.seconds) : null
  if (seconds !== null) return [{ upstreamModel, seconds }]
  return tokensUsed(usage, upstreamModel)
}

/** The use that a usage with `input_tokens` and `output_tokens` reports; empty if it is malformed. */
export function tokensUsed(usage: unknown, upstreamModel: string | null): RealtimeUse[] {
  if (!isObject(usage)) return []
  const input = object(usage.input_token_details ?? usage.input_tokens_details)
  const cached = object(input.cached_tokens_details)
  const tokens = normaliseUsage({
    prompt_tokens: usage.input_tokens,
    completion_tokens: usage.output_tokens,
    total_tokens: usage.total_tokens,
    prompt_tokens_details: {
      ...input,
      cached_audio_tokens: cached.audio_tokens,
      // Cached ones have their own price.
      image_tokens: (count(input.image_tokens) ?? 0) - (count(cached.image_tokens) ?? 0),
    },
    completion_tokens_details: usage.output_token_details ?? usage.output_tokens_details,
  })
  return tokens && tokens.total_tokens <= maxTokens ? [{ upstreamModel, usage: tokens }] : []
}

function object(value: unknown): Json {
  return isObject(value) ? value : {}
}
