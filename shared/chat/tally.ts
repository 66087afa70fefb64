import { isDecodable } from './pictures.ts'

/** Beyond this much text the count stays where it is; nobody generates more. */
const mostCharacters = 4 * 1024 * 1024
/** Pieces of a few characters each are joined by as many, so that they cost no more than their text. */
const piecesPerPart = 1024
/** Base64 of 24 kHz samples of 16 bits, at 20 tokens a second. */
const audioCharactersPerToken = 3_200
/** Further images are not looked at, and not counted by us; nobody draws more. */
const mostImages = 64

type Delta = Record<string, unknown>
type Counted = { choices: { text?: unknown; delta?: Delta }[] }

/** What a stream has delivered, kept in case its tokens must be counted: when the provider gives no usage or the stream is cut. */
export class Tally {
  /** Of each image delivered so far, whether it can be decoded; null = there is none. */
  images: Promise<boolean>[] | null = null
  #text = ''
  #pieces: string[] = []
  #length = 0
  #audioLength = 0
  #additions = 0

  /** Characters delivered so far, those beyond the 4 M that are kept included; a piece of media is one. */
  get length(): number {
    return this.#length
  }

  /** Pieces that brought something to a choice. Each has a token of its own, at least. */
  get additions(): number {
    return this.#additions
  }

  /** Tokens that the sound delivered so far is worth. */
  get audioTokens(): number {
    return Math.ceil(this.#audioLength / audioCharactersPerToken)
  }

  add(piece: Counted): void {
    for (const { text, delta } of piece.choices) {
      const lengthBefore = this.#length
      if (typeof text === 'string') this.#add(text)
      if (delta) this.#addDelta(delta)
      if (this.#length > lengthBefore) this.#additions++
    }
  }

  /** What a piece adds that brings one text and nothing else. */
  addText(text: string): void {
    if (text !== '') this.#additions++
    this.#add(text)
  }

  /** All text delivered so far, in no particular order: content, reasoning, refusals and tool arguments. '' = nothing was. */
  text(): string {
    this.#text += this.#pieces.join('')
    this.#pieces = []
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

  /** An image is looked at at once, so that it need not be kept. */
  #addImage(image: unknown): void {
    this.#length++
    this.images ??= []
    if (this.images.length < mostImages) this.images.push(isDecodable(image))
  }

  #addCall(call: unknown): void {
    const called = isObject(call) && isObject(call.function) ? call.function : {}
    if (typeof called.name === 'string') this.#add(called.name)
    if (typeof called.arguments === 'string') this.#add(called.arguments)
  }

  #add(text: string): void {
    if (text === '') return
    if (this.#length < mostCharacters) this.#pieces.push(text)
    this.#length += text.length
    if (this.#pieces.length === piecesPerPart) this.text()
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
