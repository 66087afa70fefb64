/** Beyond this much text the count stays where it is; nobody generates more. */
const mostCharacters = 4 * 1024 * 1024
/** Pieces of a few characters each are joined by as many, so that they cost no more than their text. */
const piecesPerPart = 1024
/** Base64 of 24 kHz samples of 16 bits, at 20 tokens a second. */
const audioCharactersPerToken = 3_200
const tokensPerImage = 1_000

type Delta = Record<string, unknown>
type Counted = { choices: { text?: unknown; delta?: Delta }[] }

/** The text a stream has delivered, kept in case its tokens must be counted: when the provider gives no usage or the stream is cut. */
export class Tally {
  #text = ''
  #pieces: string[] = []
  #length = 0

  /** Characters delivered so far, those beyond the 4 M that are kept included. */
  get length(): number {
    return this.#length
  }

  add(piece: Counted): void {
    for (const { text, delta } of piece.choices) {
      if (typeof text === 'string') this.#add(text)
      if (delta) this.#addDelta(delta)
    }
  }

  /** All text delivered so far, in no particular order: content, reasoning, refusals and tool arguments. '' = nothing was. */
  text(): string {
    this.#text += this.#pieces.join('')
    this.#pieces = []
    return this.#text
  }

  #addDelta({ content, reasoning_content, reasoning, refusal, tool_calls, audio, images }: Delta): void {
    for (const text of [content, reasoning_content ?? reasoning, refusal]) if (typeof text === 'string') this.#add(text)
    if (Array.isArray(tool_calls)) for (const call of tool_calls) this.#addCall(call)
    if (isObject(audio)) {
      const { transcript, data } = audio
      if (typeof transcript === 'string') this.#add(transcript)
      // Sound and images are worth about as many tokens as these texts.
      if (typeof data === 'string') this.#add(' audio'.repeat(Math.ceil(data.length / audioCharactersPerToken)))
    }
    if (Array.isArray(images)) for (const _ of images) this.#add(' image'.repeat(tokensPerImage))
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
