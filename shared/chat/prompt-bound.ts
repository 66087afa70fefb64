import {
  billsDocumentText,
  maxAudioTokensPerSecond,
  maxImageTokens,
  maxPageTokens,
  maxPromptTokens,
} from '../catalog/traits.ts'
import type { Features, PromptMedia } from '../kinds/features.ts'
import type { Target } from '../providers/contract.ts'

/** For a model whose context length is not known. */
const maxContextTokens = 2_000_000
const unknown = Number.POSITIVE_INFINITY

/** The most tokens that the pictures, the sound and the documents of a prompt can be billed as; infinite where that is not known. */
export type MediaTokens = { images: number; sound: number; documents: number }

export function maxMediaTokens(
  { images, soundMs, earlierSounds, documents }: PromptMedia,
  target: Target,
): MediaTokens {
  const times = (count: number, perUnit: number | null) => (count === 0 ? 0 : Math.ceil(count * (perUnit ?? unknown)))
  const sound = soundMs === null ? unknown : times(soundMs / 1_000, maxAudioTokensPerSecond(target))
  // An earlier answer of the model is no longer than an answer can be.
  const earlier = times(earlierSounds, target.model.max_output_tokens)
  const pages = documents === null ? unknown : times(documents.pages, maxPageTokens(target))
  const text = documents && billsDocumentText(target) ? documents.textBytes : 0
  return { images: times(images, maxImageTokens(target)), sound: sound + earlier, documents: pages + text }
}

/** A number of tokens of some prompts, or the model's context for each where that is less: no longer prompt is taken. */
export function withinContext(tokens: number, target: Target, prompts = 1): number {
  return Math.min(tokens, (maxPromptTokens(target) ?? maxContextTokens) * prompts)
}

/**
 * The most prompt tokens that a target can bill for a request. Text has at most as many tokens as bytes; what the limits of
 * `shared/catalog/traits.ts` and the measured sizes do not bound, the model's context does. Pictures may be billed as more tokens
 * than they take in the context (a model's price for them is then written as a number of tokens).
 */
export function promptTokensBound(
  { textTokensBound, media, prompts }: Pick<Features, 'textTokensBound' | 'media' | 'prompts'>,
  target: Target,
): number {
  const { images, sound, documents } = maxMediaTokens(media, target)
  const others = withinContext(textTokensBound + sound + documents, target, prompts)
  return Number.isFinite(images) ? others + images : withinContext(images, target)
}
