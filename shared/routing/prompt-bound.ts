import {
  billsDocumentText,
  maxAudioTokensPerSecond,
  maxImageTokens,
  maxPageTokens,
  maxPromptTokens,
} from '../catalog/traits.ts'
import type { Target } from '../providers/contract.ts'
import type { Features, PromptMedia } from './features.ts'
import { webSearchesAt } from './web-searches.ts'

type Bounded = Pick<Features, 'textTokensBound' | 'media' | 'prompts' | 'webSearches' | 'toolReads'>

type Stated = Pick<Features, 'media' | 'prompts' | 'choices' | 'webSearches' | 'toolReads' | 'extendsPrompt'>

/** Used for models of unknown context length. */
const maxContextTokens = 2_000_000
const unknown = Number.POSITIVE_INFINITY

/** The maximum tokens billed for the images, audio and documents of a prompt; infinite when unknown. */
export type MediaTokens = { images: number; sound: number; documents: number }
const noTokens: Readonly<MediaTokens> = { images: 0, sound: 0, documents: 0 }

export function maxMediaTokens(media: PromptMedia, target: Target): Readonly<MediaTokens> {
  if (isText(media)) return noTokens
  const { images, soundMs, earlierSounds, documents } = media
  const times = (count: number, perUnit: number | null) => (count === 0 ? 0 : Math.ceil(count * (perUnit ?? unknown)))
  const sound = soundMs === null ? unknown : times(soundMs / 1_000, maxAudioTokensPerSecond(target))
  // An earlier answer cannot exceed the model's output limit.
  const earlier = times(earlierSounds, target.model.max_output_tokens)
  const pages = documents === null ? unknown : times(documents.pages, maxPageTokens(target))
  const text = documents && billsDocumentText(target) ? documents.textBytes : 0
  return { images: times(images, maxImageTokens(target)), sound: sound + earlier, documents: pages + text }
}

/** Whether a prompt has nothing but text, as most have. */
function isText({ images, soundMs, earlierSounds, documents }: PromptMedia): boolean {
  return images === 0 && soundMs === 0 && earlierSounds === 0 && documents?.pages === 0 && documents.textBytes === 0
}

/** Limits a number of tokens to the model's context, per prompt: longer prompts are rejected. */
export function withinContext(tokens: number, target: Target, prompts = 1): number {
  return Math.min(tokens, (maxPromptTokens(target) ?? maxContextTokens) * prompts)
}

/** The most rounds of its own tools that a provider runs in one request. */
const maxToolRounds = 10

/**
 * The most tokens that a provider can truthfully state for a request: each prompt, each choice and each round of the
 * provider's own tools can fill the context. Images may be billed as more.
 */
export function maxStatedTokens(features: Stated, target: Target): { prompt: number; completion: number } {
  const { media, prompts, choices, webSearches, toolReads = 0, extendsPrompt } = features
  const { images } = maxMediaTokens(media, target)
  const rounds = 1 + toolReads + (webSearchesAt(target, webSearches)?.max ?? 0) + (extendsPrompt ? maxToolRounds : 0)
  const context = withinContext(unknown, target, rounds)
  const more = Number.isFinite(images) ? images : 0
  return { prompt: context * Math.max(prompts, choices) + more, completion: context * Math.max(choices, 1) + more }
}

/**
 * The maximum prompt tokens that a target can bill for a request. Text has at most as many tokens as bytes; what
 * neither the limits of `shared/catalog/traits.ts` nor the measured sizes bound is bounded by the model's context.
 * Images may be billed as more tokens than they occupy in the context (the model's image price is then expressed in
 * tokens). The results of web searches have no bound; counted is what they usually add. Those of fetched pages and MCP
 * servers are chosen by the caller, so each reading of them counts as a whole context.
 */
export function promptTokensBound(features: Bounded, target: Target): number {
  const { textTokensBound, media, prompts, webSearches, toolReads = 0 } = features
  const searches = webSearchesAt(target, webSearches)
  const { images, sound, documents } = maxMediaTokens(media, target)
  const others = withinContext(
    textTokensBound + sound + documents + (searches?.promptTokens ?? 0),
    target,
    prompts + (searches?.max ?? 0),
  )
  const read = Number.isFinite(images) ? others + images : withinContext(images, target)
  return read + withinContext(unknown, target, toolReads)
}
