import type { Usage } from '../base/usage.ts'
import { imageTokens } from '../catalog/image-tokens.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Tally } from './tally.ts'
import { countPrompt, countTokens } from './tokens.ts'

/** The content of an answer: its text and its media. */
export type Delivered = {
  /** Joined from its chunks only on demand. */
  text(): string
  /** Estimated tokens of its audio. */
  audioTokens: number
  images: number
  /** Undecodable images. */
  lostImages: number
  /** Searches of the web by the provider's own tool; absent = none. */
  webSearches?: number
}

/** Speech has about 15 characters and 20 tokens per second. */
const tokensPerSpokenCharacter = 20 / 15

/** The content of a stream; `verdicts` = which of its images can be decoded. */
export function deliveredByStream(tally: Tally, verdicts: readonly boolean[]): Delivered {
  const images = verdicts.filter(Boolean).length
  const lostImages = verdicts.length - images
  const { audioTokens, webSearches } = tally
  return { text: () => tally.text(), audioTokens, images, lostImages, webSearches }
}

export type AnswerChoice = { finish_reason?: string | null; text?: string; message?: Record<string, unknown> }

/** The content of a complete answer, after `lostImages` images were removed. */
export function deliveredByAnswer(choices: readonly AnswerChoice[], lostImages: number): Delivered {
  let audioTokens = 0
  let images = 0
  for (const { message } of choices) {
    if (Array.isArray(message?.images)) images += message.images.length
    const { data, transcript } = audioOf(message)
    if (data) audioTokens += 1 + Math.ceil(String(transcript ?? '').length * tokensPerSpokenCharacter)
  }
  return { text: () => choices.map(textOf).join(''), audioTokens, images, lostImages }
}

function textOf({ text, message }: AnswerChoice): string {
  if (text !== undefined || !message) return text ?? ''
  const toolCalls = message.tool_calls ?? message.function_call
  const calls = toolCalls ? JSON.stringify(toolCalls) : ''
  return [message.content, message.reasoning_content, message.refusal, calls, audioOf(message).transcript]
    .filter(part => typeof part === 'string')
    .join('')
}

type Audio = { data?: unknown; transcript?: unknown }
const noAudio: Audio = {}

function audioOf(message: AnswerChoice['message']): Audio {
  return message?.audio ?? noAudio
}

/** Whether an answer has any content. */
export function hasContent({ text, audioTokens, images }: Delivered): boolean {
  return audioTokens > 0 || images > 0 || text() !== ''
}

/** Whether a provider's usage includes media that was not delivered: undecodable images, or missing audio. */
export function includesLostMedia(usage: Usage, { audioTokens, lostImages }: Delivered): boolean {
  return lostImages > 0 || (audioTokens === 0 && (usage.completion_tokens_details?.audio_tokens ?? 0) > 0)
}

/** Subtracts the lost media from a usage. */
export async function subtractLostMedia(usage: Usage, delivered: Delivered): Promise<Usage> {
  const { images, lostImages, audioTokens, text } = delivered
  const { audio_tokens = 0, image_tokens = 0, reasoning_tokens = 0 } = usage.completion_tokens_details ?? {}
  // If the provider does not itemise image tokens, they are the tokens not otherwise accounted for.
  const otherTokens = image_tokens > 0 ? 0 : reasoning_tokens + audio_tokens + (await countTokens(text()))
  const allImageTokens = image_tokens || Math.max(0, usage.completion_tokens - otherTokens)
  const lostImageTokens = lostImages === 0 ? 0 : Math.floor((allImageTokens * lostImages) / (images + lostImages))
  const lostAudioTokens = audioTokens === 0 ? audio_tokens : 0
  // The provider's reported cost includes the lost media.
  const { provider_cost_nano: _stated, ...counts } = usage
  return {
    ...counts,
    completion_tokens: usage.completion_tokens - lostImageTokens - lostAudioTokens,
    total_tokens: usage.total_tokens - lostImageTokens - lostAudioTokens,
    completion_tokens_details: {
      ...usage.completion_tokens_details,
      audio_tokens: audio_tokens - lostAudioTokens,
      image_tokens: image_tokens && image_tokens - lostImageTokens,
    },
  }
}

/** Estimates the usage of a call whose provider reported none. */
export async function countUsage<K extends DirectKind>(
  kind: K,
  body: DirectKinds[K]['request'],
  { text, audioTokens, images, webSearches = 0 }: Delivered,
): Promise<Usage> {
  const [prompt, textTokens] = await Promise.all([countPrompt(kind, body), countTokens(text())])
  const image_tokens = images * imageTokens.outputEstimate
  const completion_tokens = textTokens + audioTokens + image_tokens
  return {
    ...prompt,
    completion_tokens,
    total_tokens: prompt.prompt_tokens + completion_tokens,
    ...((audioTokens > 0 || image_tokens > 0) && {
      completion_tokens_details: { audio_tokens: audioTokens, image_tokens },
    }),
    ...(webSearches > 0 && { web_searches: webSearches }),
    estimated: true,
  }
}
