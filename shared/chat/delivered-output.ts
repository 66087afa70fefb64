import { isObject } from '../base/is-object.ts'
import type { Usage } from '../base/usage.ts'
import { imageTokens } from '../catalog/image-tokens.ts'
import { examineImage } from '../io/media/images.ts'
import { visitDeltaTexts } from '../kinds/chat-delta.ts'
import { ProviderError } from '../providers/provider-error.ts'
import type { StreamDecoder } from '../providers/stream-decoder.ts'
import { countTokens, type PromptUsage } from './tokens.ts'

/** Text beyond this length is not kept. */
const maxCharacters = 4 * 1024 * 1024
/** A text of this length may be a single token, and usually is one. */
const tokenCharacters = 4
/** Chunks are joined in groups of this size, so that many small ones need no more memory than their text. */
const chunksPerPart = 1024
/** Base64 of 24 kHz samples of 16 bits, at 20 tokens a second. */
const audioCharactersPerToken = 3_200
/** Further images are neither checked nor counted. */
const maxImages = 64

type Delta = Record<string, unknown>
type CountedChunk = { choices: { text?: unknown; delta?: Delta }[] }

/**
 * Accumulates what a stream delivered, in case its tokens must be counted: when the provider reports no usage or the
 * stream is aborted.
 */
export class DeliveredOutput {
  /** For each delivered image, whether it can be decoded; null = none. */
  images: Promise<boolean>[] | null = null
  /** Searches of the web by the provider's own tool. */
  webSearches = 0
  #text = ''
  #parts: string[] = []
  #length = 0
  #audioLength = 0
  #additions = 0
  #received = 0
  readonly #add = (text: string): void => {
    if (text === '') return
    if (this.#length < maxCharacters) this.#parts.push(text)
    this.#length += text.length
    if (this.#parts.length === chunksPerPart) this.text()
  }

  /** Characters delivered so far, including those beyond the kept 4 M; a media chunk counts as one. */
  get length(): number {
    return this.#length
  }

  /** Characters that have come so far, also those that a decoder keeps back or leaves out. */
  get received(): number {
    return Math.max(this.#length, this.#received)
  }

  /** Chunks that added to a choice. Each has at least one token. */
  get additions(): number {
    return this.#additions
  }

  /** Estimated tokens of the delivered audio. */
  get audioTokens(): number {
    return Math.ceil(this.#audioLength / audioCharactersPerToken)
  }

  add(chunk: CountedChunk): void {
    for (const { text, delta } of chunk.choices) {
      const lengthBefore = this.#length
      if (typeof text === 'string') this.#add(text)
      if (delta) this.#addDelta(delta)
      if (this.#length > lengthBefore) this.#additions++
    }
  }

  /** Adds a chunk that contains a single text. */
  addText(text: string): void {
    if (text !== '') this.#additions++
    this.#add(text)
  }

  /** Notes what the decoder of the stream counts beside the chunks: how often the model has searched, and the characters. */
  note({ webSearches = 0, received = 0 }: Pick<StreamDecoder<unknown>, 'webSearches' | 'received'>): void {
    if (webSearches > this.webSearches) this.webSearches = webSearches
    this.#received = received
  }

  /** All delivered text, in no particular order: content, reasoning, refusals and tool arguments. '' = none. */
  text(): string {
    this.#text += this.#parts.join('')
    this.#parts = []
    return this.#text
  }

  #addDelta(delta: Delta): void {
    const { audio, images } = delta
    visitDeltaTexts(delta, this.#add)
    if (isObject(audio) && typeof audio.data === 'string' && audio.data !== '') {
      this.#audioLength += audio.data.length
      this.#length++
    }
    if (Array.isArray(images)) for (const image of images) this.#addImage(image)
  }

  /** Images are checked at once, so that they need not be kept. */
  #addImage(image: unknown): void {
    this.#length++
    this.images ??= []
    if (this.images.length < maxImages) this.images.push(isDecodable(image))
  }
}

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
  /** Estimated tokens that have come and were not delivered; absent = none. */
  withheldTokens?: number
}

/** Speech has about 15 characters and 20 tokens per second. */
const tokensPerSpokenCharacter = 20 / 15

/** The content of a stream; `verdicts` = which of its images can be decoded. */
export function deliveredByStream(output: DeliveredOutput, verdicts: readonly boolean[]): Delivered {
  const images = verdicts.filter(Boolean).length
  const lostImages = verdicts.length - images
  const { audioTokens, webSearches, received, length } = output
  const withheldTokens = Math.ceil((received - length) / tokenCharacters)
  return { text: () => output.text(), audioTokens, images, lostImages, webSearches, withheldTokens }
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

/** Whether an answer has more than may be a single token: a provider that states none for it cannot be right. */
export function exceedsOneToken({ text, audioTokens, images }: Delivered): boolean {
  return audioTokens > 0 || images > 0 || text().length > tokenCharacters
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

/** Estimates the usage of a call whose provider reported none. `counting`: the count of its prompt. */
export async function countUsage(
  counting: Promise<PromptUsage>,
  { text, audioTokens, images, webSearches = 0 }: Delivered,
): Promise<Usage> {
  const [prompt, textTokens] = await Promise.all([counting, countTokens(text())])
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

type Message = Record<string, unknown>
type Answer = { choices?: unknown }

/**
 * Removes undecodable images from a complete answer and returns their number. Throws a ProviderError `invalid_response`
 * when nothing else was in the answer.
 */
export async function dropUndecodableImages(answer: Answer): Promise<number> {
  let lostCount = 0
  for (const message of messagesOf(answer)) {
    if (!Array.isArray(message.images)) continue
    const { images } = message
    const verdicts = await Promise.all(images.map(isDecodable))
    const decodable = images.filter((_, i) => verdicts[i])
    lostCount += images.length - decodable.length
    if (decodable.length > 0) message.images = decodable
    else delete message.images
  }
  if (lostCount > 0 && !messagesOf(answer).some(messageHasContent))
    throw new ProviderError('invalid_response', 'No image of the provider’s answer can be decoded.')
  return lostCount
}

const dataUri = /^data:[^,]{0,200};base64,/

/** Whether an image of an answer is valid; never rejects. URLs other than `data:` URIs are not fetched. */
async function isDecodable(image: unknown): Promise<boolean> {
  const { url } = ((image as { image_url?: unknown } | null)?.image_url ?? {}) as { url?: unknown }
  if (typeof url !== 'string') return false
  if (!url.startsWith('data:')) return URL.canParse(url)
  const [head] = dataUri.exec(url) ?? []
  if (head === undefined) return false
  const facts = await examineImage(Buffer.from(url.slice(head.length), 'base64')).catch(() => null)
  return facts !== null
}

function messagesOf({ choices }: Answer): Message[] {
  return Array.isArray(choices) ? choices.flatMap(choice => choice.message ?? []) : []
}

/** Reasoning alone does not count as content. */
function messageHasContent({ content, refusal, tool_calls, audio, images }: Message): boolean {
  return Boolean(content || refusal || images || audio) || (Array.isArray(tool_calls) && tool_calls.length > 0)
}
