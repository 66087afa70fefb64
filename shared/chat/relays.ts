import { isAscii } from 'node:buffer'
import { EventCutter, parseEvent, type ServerSentEvent, SseParser, splitEvents } from '../io/sse.ts'
import type { DirectKind } from '../kinds/index.ts'
import { type Call, type DirectAdapter, ProviderError } from '../providers/contract.ts'
import type { StreamDecoder } from '../providers/stream-decoder.ts'
import { additionOf } from './choices.ts'
import { type Asked, nonsense, type Piece, Relay, type Shape } from './relay.ts'
import { type Repeat, Repeats } from './repeats.ts'
import { asBytes, Splicer } from './splice.ts'

/** The relay for one streaming call: bytes pass unchanged where the dialect is our own. */
export function relayFor<K extends DirectKind>(
  { adapter, call, requests }: { adapter: DirectAdapter<K>; call: Call<K>; requests: readonly unknown[] },
  shape: Shape,
  asked: Asked,
): Relay {
  const provider = call.target.provider.name
  const decoder = adapter.stream!(call) as StreamDecoder<unknown> as StreamDecoder<Piece>
  return adapter.native
    ? new PassingRelay(provider, decoder, shape, asked)
    : new TranslatingRelay(provider, decoder, shape, asked, requests.length)
}

/**
 * For providers with a dialect of their own, and calls of several requests: events are decoded to pieces and written anew, as they
 * come.
 */
export class TranslatingRelay extends Relay {
  readonly encoding = 'utf8'
  readonly #decoder: StreamDecoder<Piece>
  readonly #parsers: SseParser[]
  /** Requests whose answers have not ended. */
  #open: number
  readonly #id: string

  /** `parts`: how many requests the call takes. */
  constructor(provider: string, decoder: StreamDecoder<Piece>, shape: Shape, asked: Asked, parts: number) {
    super(provider, shape, asked)
    this.#decoder = decoder
    this.#parsers = Array.from({ length: parts }, () => new SseParser())
    this.#open = parts
    this.#id = shape.id
  }

  feed(bytes: Buffer, part = 0): void {
    for (const event of understood(() => this.#parsers[part]!.push(bytes))) this.#take(event, part)
    this.over = this.#decoder.over === true
    if (this.over) this.conclude(true)
  }

  close(part = 0): void {
    if (this.over) return
    const last = this.#parsers[part]!.end()
    this.isClosing = true
    if (last) unlessHalf(() => this.#take(last, part))
    this.isClosing = --this.#open === 0
    if (this.isClosing) this.conclude(this.#decoder.done)
  }

  protected encode(text: string): string {
    return text
  }

  #take(event: ServerSentEvent, part: number): void {
    // Its pieces have many tokens each: nothing would prove that none is missing.
    for (const piece of this.decode(event, () => this.#decoder.push(event, part), false)) {
      this.noteSource(piece)
      this.take({ ...piece, id: this.#id })
    }
  }
}

/**
 * For providers that speak our dialect: bytes pass as they came. Every event is parsed unless it repeats an earlier one but
 * for its text, so that only what was understood passes; the first one and those that finish, report usage or report an error
 * are written anew. In the others the name of the model and the members that OpenAI's chunks have or have not are changed in
 * place.
 */
export class PassingRelay extends Relay {
  readonly encoding = 'latin1'
  readonly #decoder: StreamDecoder<Piece>
  readonly #isChat: boolean
  readonly #cutter = new EventCutter()
  readonly #splicer: Splicer
  readonly #repeats = new Repeats()

  constructor(provider: string, decoder: StreamDecoder<Piece>, shape: Shape, asked: Asked) {
    super(provider, shape, asked)
    this.#decoder = decoder
    this.#splicer = new Splicer({ model: shape.model, includeUsage: asked.includeUsage })
    this.#isChat = shape.object !== 'text_completion'
  }

  feed(bytes: Buffer): void {
    const passed = this.#passRepeats(bytes)
    if (passed === bytes.length) return
    const { isEmpty } = this.#cutter
    const rest = passed === 0 ? bytes : bytes.subarray(passed)
    const run = understood(() => this.#cutter.push(rest.toString('latin1')))
    this.#take(run, isEmpty && run.length === rest.length ? rest : Buffer.from(run, 'latin1'))
    if (this.over) this.conclude(true)
  }

  /** Passes the events at the beginning of a packet that repeat an earlier one; gives the number of their bytes. */
  #passRepeats(bytes: Buffer): number {
    let passed = 0
    if (!this.#cutter.isEmpty || this.over) return passed
    while (passed < bytes.length) {
      const repeat = this.#repeatAt(bytes, passed)
      if (!repeat) break
      this.pass(repeat.passing)
      passed = repeat.end
    }
    return passed
  }

  /** Notes the event at this place of a packet if it repeats an earlier one; null for any other. */
  #repeatAt(bytes: Buffer, at: number): Repeat | null {
    const repeat = this.#repeats.match(bytes, at)
    if (!repeat || this.choices.hasFinished(this.#repeats.index)) return null
    this.tally.addText(repeat.text)
    return repeat
  }

  close(): void {
    if (this.over) return
    this.isClosing = true
    const rest = this.#cutter.rest().trim()
    if (rest !== '') unlessHalf(() => this.#take(`${rest}\n\n`, Buffer.from(rest, 'latin1')))
    this.conclude(this.over)
  }

  /** As latin1 characters that are the text's UTF-8 bytes, like the bytes that pass. */
  protected encode(text: string): string {
    return asBytes(text)
  }

  /** `run`: whole events as latin1 text of `bytes`. */
  #take(run: string, bytes: Buffer): void {
    const raws = splitEvents(run)
    const texts = isAscii(bytes) ? raws : splitEvents(bytes.toString())
    let passed = 0
    let end = 0
    for (const [i, raw] of raws.entries()) {
      const start = end
      end += raw.length
      const repeat = this.#repeatAt(bytes, start)
      const event = repeat ? null : parseEvent(texts[i]!)
      const passing = repeat ? repeat.passing : this.#passing(event, raw, texts[i] === raw)
      if (passing === raw) continue
      this.pass(run.slice(passed, start))
      passed = end
      if (passing !== null) this.pass(passing)
      else if (event) this.#look(event)
      if (this.over) return
    }
    this.pass(run.slice(passed))
  }

  /** The text of an event that passes: a comment, or a chunk that only adds to choices, which is noted. Null for any other. */
  #passing(event: ServerSentEvent | null, raw: string, isAscii: boolean): string | null {
    if (!this.begun) return null
    if (!event) return raw
    const addition = additionOf(event, this.#isChat)
    if (!addition || addition.choices.some(({ index }) => this.choices.hasFinished(index))) return null
    const text = this.#splicer.splice(raw, addition)
    if (text === null) return null
    this.note(addition)
    if (isAscii) this.#repeats.learn(raw, addition, this.#splicer)
    return text
  }

  #look(event: ServerSentEvent): void {
    for (const piece of this.decode(event, () => this.#decoder.push(event), true)) {
      this.noteSource(piece)
      this.take(piece)
    }
    this.over = event.data.trim() === '[DONE]'
  }
}

function understood<T>(parse: () => T): T {
  try {
    return parse()
  } catch (cause) {
    throw nonsense('the stream could not be understood', cause)
  }
}

/** Reads an event whose end never came: one that makes no sense is half of one, and says nothing. */
function unlessHalf(read: () => void): void {
  try {
    read()
  } catch (error) {
    if (!(error instanceof ProviderError && error.reason === 'invalid_response')) throw error
  }
}
