import { parseEvents } from '../io/sse.ts'

const compactAt = 16 * 1024
/** Beyond this much text the count is extrapolated; nobody generates more. */
const mostCharacters = 4 * 1024 * 1024
/** Base64 of 24 kHz samples of 16 bits, at 20 tokens a second. */
const audioCharactersPerToken = 3_200
const tokensPerImage = 1_000

type Counted = { choices?: { text?: string; delta?: Record<string, unknown> }[] }

/**
 * The text a stream has delivered, kept cheaply in case its tokens must be counted: when the provider gives no usage or
 * the stream is cut. Raw events wait unparsed until there are 16 kB of them.
 */
export class Tally {
  #raw: string[] = []
  #rawLength = 0
  #text = ''

  /** Whole events in our dialect, as latin1 text. */
  addRaw(events: string): void {
    this.#raw.push(events)
    this.#rawLength += events.length
    if (this.#rawLength >= compactAt) this.#compact()
  }

  addPiece(piece: Counted): void {
    if (this.#text.length < mostCharacters) this.#text += textOf(piece)
  }

  /** All text delivered so far, in no particular order: content, reasoning, refusals and tool arguments. '' = nothing was. */
  text(): string {
    this.#compact()
    return this.#text
  }

  #compact(): void {
    if (this.#rawLength === 0) return
    const text = Buffer.from(this.#raw.join(''), 'latin1').toString()
    this.#raw = []
    this.#rawLength = 0
    for (const { data } of parseEvents(text)) {
      try {
        this.addPiece(JSON.parse(data) as Counted)
      } catch {
        // Not ours to judge here: bytes that passed unparsed may hold anything.
      }
    }
  }
}

function textOf({ choices }: Counted): string {
  let text = ''
  for (const { text: completion, delta } of choices ?? []) {
    if (completion) text += completion
    if (!delta) continue
    for (const field of ['content', 'reasoning_content', 'reasoning', 'refusal']) {
      if (typeof delta[field] === 'string') text += delta[field]
    }
    for (const call of (delta.tool_calls as { function?: { name?: string; arguments?: string } }[] | undefined) ?? []) {
      text += (call.function?.name ?? '') + (call.function?.arguments ?? '')
    }
    const { transcript = '', data = '' } = (delta.audio ?? {}) as { transcript?: string; data?: string }
    // Sound and images are worth about as many tokens as these texts.
    text += transcript + ' audio'.repeat(Math.ceil(data.length / audioCharactersPerToken))
    if (Array.isArray(delta.images)) text += ' image'.repeat(tokensPerImage * delta.images.length)
  }
  return text
}
