import type { ShownUsage, Usage } from '../base/usage.ts'
import { EventCutter, endOfEvent, parseEvents, type ServerSentEvent, SseParser } from '../io/sse.ts'
import type { DirectKind } from '../kinds/index.ts'
import { type Call, type DirectAdapter, ProviderError, type StreamDecoder } from '../providers/contract.ts'
import { Tally } from './tally.ts'

/** What all pieces of one streamed answer have in common. */
export type Shape = { id: string; object: string; created: number; model: string }

/** One piece of a streamed answer, chat or completion. */
export type Piece = Shape & {
  choices: { index: number; finish_reason?: string | null; delta?: Record<string, unknown>; text?: string }[]
  usage?: Usage | null
  provider?: string
}

/** How the answer ends: `usage` is what will be shown and billed. */
export type Ending = { usage: ShownUsage; provider: string; includeUsage: boolean }

export type Encoding = 'latin1' | 'utf8'

/**
 * A stream on its way from a provider to the client. `feed` takes what the provider sent, `flush` gives the text to write
 * now; the piece that finishes the answer is kept back until its usage is known and comes with `ending`.
 */
export abstract class Relay {
  /** How the text is to be written: bytes that pass unchanged are latin1. */
  abstract readonly encoding: Encoding
  readonly tally = new Tally()
  usage: Usage | null = null
  upstreamId: string | null = null
  finishReason: string | null = null
  /** True once a part of the answer came, be it kept back. */
  begun = false
  /** True once the provider has said that nothing more will come. */
  over = false
  #pending = ''
  readonly #provider: string
  #shape: Shape
  #held: Piece | null = null

  /** `shape` stands for what the provider has not said yet. */
  constructor(provider: string, shape: Shape) {
    this.#provider = provider
    this.#shape = shape
  }

  /** Throws a ProviderError; what came before the fault is still to be flushed. */
  abstract feed(bytes: Buffer): void

  /** The provider closed the connection. Throws a ProviderError when the answer was not whole. */
  abstract close(): void

  flush(): string {
    const text = this.#pending
    this.#pending = ''
    return text
  }

  /** Text of ours in the encoding in which everything is written. */
  protected abstract encode(text: string): string

  /** The end of a whole answer: the finishing piece, the usage where the client wants it, and the terminator. */
  ending({ usage, provider, includeUsage }: Ending): string {
    const held = this.#held ?? { ...this.#shape, choices: [emptyChoice(this.#shape, 'stop')] }
    const last = includeUsage
      ? `${this.#held ? line(held) : ''}${line({ ...this.#shape, choices: [], provider, usage })}`
      : line({ ...held, provider, usage })
    return this.encode(`${last}data: [DONE]\n\n`)
  }

  /** What ends an answer that broke after its first byte: what was kept back, then the error. */
  failing(error: unknown): string {
    const unfinished = this.#held?.choices.map(choice => ({ ...choice, finish_reason: null }))
    const rest = unfinished ? line({ ...this.#held, choices: unfinished }) : ''
    return this.encode(rest + errorEvent(this.#shape, error))
  }

  protected pass(text: string): void {
    this.#pending += text
  }

  /** Notes what a piece says, keeps back its usage and a finishing piece; the rest is to be written. */
  protected take(piece: Piece): void {
    if (piece.usage) this.usage = piece.usage
    if (piece.choices.length === 0) return
    const finishing = piece.choices.find(choice => choice.finish_reason != null)
    const { usage: _usage, ...rest } = piece
    const { id, object, created, model } = rest
    const out = this.begun ? rest : { ...rest, provider: this.#provider }
    if (!this.begun) this.#shape = { id, object, created, model }
    this.begun = true
    if (!finishing) {
      this.pass(this.encode(line(out)))
      return
    }
    this.finishReason = finishing.finish_reason!
    if (this.#held) this.pass(this.encode(line(this.#held)))
    this.#held = out
  }
}

/** The event of contract §2 that ends a stream which cannot go on. */
export function errorEvent(shape: Shape, error: unknown): string {
  return line({ ...shape, error, choices: [emptyChoice(shape, 'error')] })
}

function emptyChoice({ object }: Shape, finish_reason: string) {
  return object === 'text_completion'
    ? { index: 0, text: '', logprobs: null, finish_reason }
    : { index: 0, delta: {}, finish_reason }
}

function line(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`
}

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
    : new TranslatingRelay(provider, decoder, shape)
}

/** For providers with a dialect of their own: events are decoded to pieces and written anew. */
export class TranslatingRelay extends Relay {
  readonly encoding = 'utf8'
  readonly #decoder: StreamDecoder<Piece>
  readonly #parser = new SseParser()
  readonly #ours: Pick<Shape, 'id' | 'model'>

  constructor(provider: string, decoder: StreamDecoder<Piece>, shape: Shape) {
    super(provider, shape)
    this.#decoder = decoder
    this.#ours = { id: shape.id, model: shape.model }
  }

  feed(bytes: Buffer): void {
    for (const event of understood(() => this.#parser.push(bytes))) this.#decode(event)
  }

  close(): void {
    const last = this.#parser.end()
    if (last) this.#decode(last)
    if (!this.#decoder.done) throw this.begun ? truncated() : notAnAnswer()
  }

  protected encode(text: string): string {
    return text
  }

  #decode(event: ServerSentEvent): void {
    for (const piece of this.#decoder.push(event)) {
      this.upstreamId ??= piece.id
      this.tally.addPiece(piece)
      this.take({ ...piece, ...this.#ours })
    }
  }
}

// Without the quote that opens each name: searching for so frequent a character first takes three times as long.
const interestingMarks = [
  'finish_reason":"',
  'finish_reason": "',
  'usage":{',
  'usage": {',
  '[DONE]',
  'error":',
] as const

/**
 * For providers that speak our dialect: bytes pass as they came. Only the first event and those that finish, report usage
 * or report an error are parsed; a chunk is looked at no further than to find these.
 */
export class PassingRelay extends Relay {
  readonly encoding = 'latin1'
  readonly #decoder: StreamDecoder<Piece>
  readonly #choices: number
  readonly #finished = new Set<number>()
  readonly #cutter = new EventCutter()

  constructor(provider: string, decoder: StreamDecoder<Piece>, shape: Shape, choices: number) {
    super(provider, shape)
    this.#decoder = decoder
    this.#choices = choices
  }

  feed(bytes: Buffer): void {
    const text = bytes.toString('latin1')
    if (this.begun && !this.over && this.#cutter.empty && text.endsWith('\n\n') && !isInteresting(text)) {
      this.tally.addRaw(text)
      this.pass(text)
    } else {
      this.#events(understood(() => this.#cutter.push(text)))
    }
  }

  close(): void {
    const rest = this.#cutter.rest()
    if (rest.trim() !== '') this.#events(`${rest}\n\n`)
    if (!this.begun) throw notAnAnswer()
    if (!this.over && this.#finished.size < this.#choices) throw truncated()
  }

  #events(text: string): void {
    for (let from = 0; from < text.length && !this.over; ) {
      const next = endOfEvent(text, from)
      const raw = text.slice(from, next)
      from = next
      if (!this.begun || isInteresting(raw)) this.#look(raw)
      else {
        this.tally.addRaw(raw)
        this.pass(raw)
      }
    }
  }

  #look(raw: string): void {
    const [event] = parseEvents(Buffer.from(raw, 'latin1').toString())
    if (!event) return
    this.over = event.data.trim() === '[DONE]'
    if (this.over && !this.begun) throw notAnAnswer()
    for (const piece of this.#decoder.push(event)) {
      this.upstreamId ??= piece.id
      this.tally.addPiece(piece)
      for (const choice of piece.choices) if (choice.finish_reason != null) this.#finished.add(choice.index)
      this.take(piece)
    }
  }

  /** As latin1 characters that are the text's UTF-8 bytes, like the bytes that pass. */
  protected encode(text: string): string {
    return Buffer.from(text, 'utf8').toString('latin1')
  }
}

function isInteresting(text: string): boolean {
  for (const mark of interestingMarks) if (text.includes(mark)) return true
  return false
}

function understood<T>(parse: () => T): T {
  try {
    return parse()
  } catch (cause) {
    throw new ProviderError('invalid_response', 'the stream could not be understood', { cause })
  }
}

function notAnAnswer(): ProviderError {
  return new ProviderError('invalid_response', 'the provider sent no answer')
}

function truncated(): ProviderError {
  return new ProviderError('truncated', 'the provider ended the stream before the answer was whole')
}
