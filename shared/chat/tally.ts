import { isDecodable } from './answer-images.ts'

/** Text beyond this length is not kept. */
const maxCharacters = 4 * 1024 * 1024
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
export class Tally {
  /** For each delivered image, whether it can be decoded; null = none. */
  images: Promise<boolean>[] | null = null
  /** Searches of the web by the provider's own tool. */
  webSearches = 0
  #text = ''
  #parts: string[] = []
  #length = 0
  #audioLength = 0
  #additions = 0

  /** Characters delivered so far, including those beyond the kept 4 M; a media chunk counts as one. */
  get length(): number {
    return this.#length
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

  /** All delivered text, in no particular order: content, reasoning, refusals and tool arguments. '' = none. */
  text(): string {
    this.#text += this.#parts.join('')
    this.#parts = []
    return this.#text
  }

  #addDelta({ content, reasoning_content, reasoning, refusal, tool_calls, function_call, audio, images }: Delta): void {
    for (const text of [content, reasoning_content ?? reasoning, refusal]) if (typeof text === 'string') this.#add(text)
    if (Array.isArray(tool_calls)) for (const call of tool_calls) this.#addCall(call)
    if (isObject(function_call)) this.#addCall({ function: function_call })
    if (isObject(audio)) {
      const { transcript, data } = audio
      if (typeof transcript === 'string') this.#add(transcript)
      if (typeof data === 'string' && data !== '') {
        this.#audioLength += data.length
        this.#length++
      }
    }
    if (Array.isArray(images)) for (const image of images) this.#addImage(image)
  }

  /** Images are checked at once, so that they need not be kept. */
  #addImage(image: unknown): void {
    this.#length++
    this.images ??= []
    if (this.images.length < maxImages) this.images.push(isDecodable(image))
  }

  #addCall(call: unknown): void {
    const fn = isObject(call) && isObject(call.function) ? call.function : {}
    if (typeof fn.name === 'string') this.#add(fn.name)
    if (typeof fn.arguments === 'string') this.#add(fn.arguments)
  }

  #add(text: string): void {
    if (text === '') return
    if (this.#length < maxCharacters) this.#parts.push(text)
    this.#length += text.length
    if (this.#parts.length === chunksPerPart) this.text()
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
