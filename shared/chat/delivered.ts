import type { Usage } from '../base/usage.ts'
import type { DirectKind, DirectKinds } from '../kinds/index.ts'
import type { Tally } from './tally.ts'
import { countPrompt, countTokens } from './tokens.ts'

/** What an answer brought: the text of all its parts, and its media. */
export type Delivered = {
  /** Joined from its pieces only where it is needed. */
  text(): string
  /** What its sound is worth. */
  audioTokens: number
  images: number
  /** Images that cannot be decoded. */
  lostImages: number
}

const tokensPerImage = 1_000
/** Fifteen characters are spoken in a second, which has 20 tokens. */
const tokensPerSpokenCharacter = 20 / 15

/** What a stream delivered; `verdicts` = which of its images can be decoded. */
export function deliveredBy(tally: Tally, verdicts: readonly boolean[]): Delivered {
  const images = verdicts.filter(Boolean).length
  const lostImages = verdicts.length - images
  return { text: () => tally.text(), audioTokens: tally.audioTokens, images, lostImages }
}

export type Choice = { finish_reason?: string | null; text?: string; message?: Record<string, unknown> }

/** What a whole answer delivers, `lostImages` having been left out. */
export function deliveredIn(choices: readonly Choice[], lostImages: number): Delivered {
  let audioTokens = 0
  let images = 0
  for (const { message } of choices) {
    if (Array.isArray(message?.images)) images += message.images.length
    const { data, transcript } = audioOf(message)
    if (data) audioTokens += 1 + Math.ceil(String(transcript ?? '').length * tokensPerSpokenCharacter)
  }
  return { text: () => choices.map(textOf).join(''), audioTokens, images, lostImages }
}

function textOf({ text, message }: Choice): string {
  if (text !== undefined || !message) return text ?? ''
  const called = message.tool_calls ?? message.function_call
  const calls = called ? JSON.stringify(called) : ''
  return [message.content, message.reasoning_content, message.refusal, calls, audioOf(message).transcript]
    .filter(part => typeof part === 'string')
    .join('')
}

type Audio = { data?: unknown; transcript?: unknown }
const noAudio: Audio = {}

function audioOf(message: Choice['message']): Audio {
  return message?.audio ?? noAudio
}

/** Whether an answer brought something. */
export function isSomething({ text, audioTokens, images }: Delivered): boolean {
  return audioTokens > 0 || images > 0 || text() !== ''
}

/** Whether a provider's count has what nobody got: images that cannot be decoded, or sound that did not come. */
export function countsLost(usage: Usage, { audioTokens, lostImages }: Delivered): boolean {
  return lostImages > 0 || (audioTokens === 0 && (usage.completion_tokens_details?.audio_tokens ?? 0) > 0)
}

/** The count without that. */
export async function withoutLost(usage: Usage, delivered: Delivered): Promise<Usage> {
  const { images, lostImages, audioTokens, text } = delivered
  const { audio_tokens = 0, image_tokens = 0, reasoning_tokens = 0 } = usage.completion_tokens_details ?? {}
  // Where the provider does not tell which tokens are an image's, they are those that nothing else explains.
  const others = image_tokens > 0 ? 0 : reasoning_tokens + audio_tokens + (await countTokens(text()))
  const drawn = image_tokens || Math.max(0, usage.completion_tokens - others)
  const lostDrawn = lostImages === 0 ? 0 : Math.floor((drawn * lostImages) / (images + lostImages))
  const lostSpoken = audioTokens === 0 ? audio_tokens : 0
  // What the provider says that it cost has the lost ones in it.
  const { provider_cost_nano: _stated, ...counts } = usage
  return {
    ...counts,
    completion_tokens: usage.completion_tokens - lostDrawn - lostSpoken,
    total_tokens: usage.total_tokens - lostDrawn - lostSpoken,
    completion_tokens_details: {
      ...usage.completion_tokens_details,
      audio_tokens: audio_tokens - lostSpoken,
      image_tokens: image_tokens && image_tokens - lostDrawn,
    },
  }
}

/** Our own count, for a provider that gave none. */
export async function counted<K extends DirectKind>(
  kind: K,
  body: DirectKinds[K]['request'],
  { text, audioTokens, images }: Delivered,
): Promise<Usage> {
  const [prompt, textTokens] = await Promise.all([countPrompt(kind, body), countTokens(text())])
  const imageTokens = images * tokensPerImage
  const completion_tokens = textTokens + audioTokens + imageTokens
  return {
    ...prompt,
    completion_tokens,
    total_tokens: prompt.prompt_tokens + completion_tokens,
    ...((audioTokens > 0 || imageTokens > 0) && {
      completion_tokens_details: { audio_tokens: audioTokens, image_tokens: imageTokens },
    }),
    estimated: true,
  }
}
