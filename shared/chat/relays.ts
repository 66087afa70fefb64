import { isAscii } from 'node:buffer'
import { EventCutter, parseEvent, type ServerSentEvent, SseParser, splitEvents } from '../io/sse.ts'
import type { DirectKind } from '../kinds/index.ts'
import { type Call, type DirectAdapter, ProviderError, type StreamDecoder } from '../providers/contract.ts'
import { additionOf } from './choices.ts'
import { nonsense, type Piece, Relay, type Shape } from './relay.ts'

/** The relay for one streaming call: bytes pass unchanged where the dialect is our own. */
export function relayFor<K extends DirectKind>(
  { adapter, call }: { adapter: DirectAdapter<K>; call: Call<K> },
  shape: Shape,
  choices: number,
): Relay {
  const provider = call.target.provider.name
  const decoder = adapter.stream!(call) as StreamDecoder<unknown> as StreamDecoder<Piece>
  return adapter.native
    ? new PassingRelay(provider, decoder, shape, choices)
    : new TranslatingRelay(provider, decoder, shape, choices)
}

/** For providers with a dialect of their own: events are decoded to pieces and written anew. */
export class TranslatingRelay extends Relay {
  readonly encoding = 'utf8'
  readonly #decoder: StreamDecoder<Piece>
  readonly #parser = new SseParser()
  readonly #ours: Pick<Shape, 'id' | 'model'>

  constructor(provider: string, decoder: StreamDecoder<Piece>, shape: Shape, asked: number) {
    super(provider, shape, asked)
    this.#decoder = decoder
    this.#ours = { id: shape.id, model: shape.model }
  }

  feed(bytes: Buffer): void {
    for (const event of understood(() => this.#parser.push(bytes))) this.#take(event)
    this.over = this.#decoder.over === true
    if (this.over) this.conclude(true)
  }

  close(): void {
    if (this.over) return
    this.isClosing = true
    const last = this.#parser.end()
    if (last) unlessHalf(() => this.#take(last))
    this.conclude(this.#decoder.done)
  }

  protected encode(text: string): string {
    return text
  }

  #take(event: ServerSentEvent): void {
    // Its pieces have many tokens each: nothing would prove that none is missing.
    for (const piece of this.decode(event, this.#decoder, false)) {
      this.upstreamId ??= piece.id
      this.take({ ...piece, ...this.#ours })
    }
  }
}

/**
 * For providers that speak our dialect: bytes pass as they came. Every event is parsed, so that only what was understood
 * passes; the first one and those that finish, report usage or report an error are written anew.
 */
export class PassingRelay extends Relay {
  readonly encoding = 'latin1'
  readonly #decoder: StreamDecoder<Piece>
  readonly #isChat: boolean
  readonly #cutter = new EventCutter()

  constructor(provider: string, decoder: StreamDecoder<Piece>, shape: Shape, asked: number) {
    super(provider, shape, asked)
    this.#decoder = decoder
    this.#isChat = shape.object !== 'text_completion'
  }

  feed(bytes: Buffer): void {
    const { isEmpty } = this.#cutter
    const run = understood(() => this.#cutter.push(bytes.toString('latin1')))
    this.#take(run, isEmpty && run.length === bytes.length ? bytes : Buffer.from(run, 'latin1'))
    if (this.over) this.conclude(true)
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
    return Buffer.from(text, 'utf8').toString('latin1')
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
      const event = parseEvent(texts[i]!)
      if (this.#passes(event)) continue
      this.pass(run.slice(passed, start))
      passed = end
      if (event) this.#look(event)
      if (this.over) return
    }
    this.pass(run.slice(passed))
  }

  /** Notes an event that may pass as it came: a comment, or a chunk that only adds to choices. False for any other. */
  #passes(event: ServerSentEvent | null): boolean {
    if (!this.begun || !event) return this.begun
    const addition = additionOf(event, this.#isChat)
    if (!addition || addition.choices.some(({ index }) => this.choices.hasFinished(index))) return false
    this.note(addition)
    return true
  }

  #look(event: ServerSentEvent): void {
    for (const piece of this.decode(event, this.#decoder, true)) {
      this.upstreamId ??= piece.id
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
