import type { Usage } from '../../base/usage.ts'
import { isObject } from '../fields.ts'

/** No single answer is of more: what says so is no report. */
const mostTokens = 10_000_000

/**
 * The `usageMetadata` of an answer as ours (ai.google.dev/api/live#UsageMetadata); null where it is not understood. Video is
 * pictures to the price. Thoughts, and what tools answered, are counted beside the rest. What no detail tells apart is taken for sound,
 * the dearest: so nothing is given away.
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
      // Those that were cached are priced as cached ones.
      image_tokens: Math.max(0, input.image + tools.image - cached.image),
    },
    completion_tokens_details: {
      reasoning_tokens: thoughts,
      audio_tokens: output.audio + Math.max(0, (response ?? 0) - output.whole),
      image_tokens: output.image,
    },
  }
}

/** What a later report of the same answer has more. Its prompt is the same. */
export function growth(before: Usage, now: Usage): Usage {
  const more = (field: 'reasoning_tokens' | 'audio_tokens' | 'image_tokens') =>
    Math.max(0, (now.completion_tokens_details?.[field] ?? 0) - (before.completion_tokens_details?.[field] ?? 0))
  const tokens = Math.max(0, now.completion_tokens - before.completion_tokens)
  return {
    prompt_tokens: 0,
    completion_tokens: tokens,
    total_tokens: tokens,
    completion_tokens_details: {
      reasoning_tokens: more('reasoning_tokens'),
      audio_tokens: more('audio_tokens'),
      image_tokens: more('image_tokens'),
    },
  }
}

function countOf(value: unknown): number | null {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= mostTokens ? (value as number) : null
}

/** The sums of a list of `ModalityTokenCount`. */
function byModality(details: unknown): { whole: number; audio: number; image: number } {
  const sums = { whole: 0, audio: 0, image: 0 }
  for (const detail of Array.isArray(details) ? details : []) {
    if (!isObject(detail)) continue
    const tokens = countOf(detail.tokenCount) ?? 0
    sums.whole += tokens
    if (detail.modality === 'AUDIO') sums.audio += tokens
    if (detail.modality === 'IMAGE' || detail.modality === 'VIDEO') sums.image += tokens
  }
  return sums
}
