import { isObject } from '../../../base/is-object.ts'
import type { Usage } from '../../../base/usage.ts'

/** Sanity limit: a report above it is ignored. */
const maxTokens = 10_000_000

/**
 * Converts the `usageMetadata` of a response (ai.google.dev/api/live#UsageMetadata); null if it is malformed. Video is
 * billed as images. Thoughts, and tool results, are counted separately from the rest. Tokens without details are taken
 * for audio, the most expensive class, so that none are underbilled.
 */
export function liveUsage(metadata: unknown): Usage | null {
  if (!isObject(metadata)) return null
  const prompt = countOf(metadata.promptTokenCount)
  const response = countOf(metadata.responseTokenCount ?? metadata.candidatesTokenCount)
  if (prompt === null && response === null) return null
  const toolUse = countOf(metadata.toolUsePromptTokenCount) ?? 0
  const thoughts = countOf(metadata.thoughtsTokenCount) ?? 0
  const input = byModality(metadata.promptTokensDetails)
  const tools = byModality(metadata.toolUsePromptTokensDetails)
  const cached = byModality(metadata.cacheTokensDetails)
  const output = byModality(metadata.responseTokensDetails ?? metadata.candidatesTokensDetails)
  const promptTokens = (prompt ?? 0) + toolUse
  const completionTokens = (response ?? 0) + thoughts
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: {
      cached_tokens: countOf(metadata.cachedContentTokenCount) ?? 0,
      audio_tokens: input.audio + tools.audio + Math.max(0, (prompt ?? 0) - input.whole),
      cached_audio_tokens: cached.audio,
      // Cached ones have their own price.
      image_tokens: Math.max(0, input.image + tools.image - cached.image),
    },
    completion_tokens_details: {
      reasoning_tokens: thoughts,
      audio_tokens: output.audio + Math.max(0, (response ?? 0) - output.whole),
      image_tokens: output.image,
    },
  }
}

/** The increase in a later report of the same response. Its prompt is the same. */
export function usageIncrease(previous: Usage, current: Usage): Usage {
  const increaseOf = (field: 'reasoning_tokens' | 'audio_tokens' | 'image_tokens') =>
    Math.max(0, (current.completion_tokens_details?.[field] ?? 0) - (previous.completion_tokens_details?.[field] ?? 0))
  const outputIncrease = Math.max(0, current.completion_tokens - previous.completion_tokens)
  return {
    prompt_tokens: 0,
    completion_tokens: outputIncrease,
    total_tokens: outputIncrease,
    completion_tokens_details: {
      reasoning_tokens: increaseOf('reasoning_tokens'),
      audio_tokens: increaseOf('audio_tokens'),
      image_tokens: increaseOf('image_tokens'),
    },
  }
}

function countOf(value: unknown): number | null {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= maxTokens ? (value as number) : null
}

/** Sums a list of `ModalityTokenCount`. */
function byModality(details: unknown): { whole: number; audio: number; image: number } {
  const totals = { whole: 0, audio: 0, image: 0 }
  for (const detail of Array.isArray(details) ? details : []) {
    if (!isObject(detail)) continue
    const count = countOf(detail.tokenCount) ?? 0
    totals.whole += count
    if (detail.modality === 'AUDIO') totals.audio += count
    if (detail.modality === 'IMAGE' || detail.modality === 'VIDEO') totals.image += count
  }
  return totals
}
