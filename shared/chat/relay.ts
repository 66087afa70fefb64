import { isAscii } from 'node:buffer'
import type { ShownUsage, Usage } from '../base/usage.ts'
import { EventCutter, parseEvent, type ServerSentEvent, SseParser, splitEvents } from '../io/sse.ts'
import type { DirectKind } from '../kinds/index.ts'
import { type Call, type DirectAdapter, ProviderError, type StreamDecoder } from '../providers/contract.ts'
import { additionOf, type Choice, Choices, emptyChoice, onlyFinish, withoutFinish } from './choices.ts'
import { Tally } from './tally.ts'

/** What all pieces of one streamed answer have in common. */
export type Shape = { id: string; object: string; created: number; model: string }

/** One piece of a streamed answer, chat or completion. */
export type Piece = Shape & { choices: Choice[]; usage?: Usage | null; provider?: string }

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
  upstreamId: string | null = null
  finishReason: string | null = null
  /** True once a part of the answer came, be it kept back. */
  begun = false
  /** True once the provider has said that nothing more will come. */
  over = false
  protected readonly choices: Choices
  readonly #provider: string
  #pending = ''
  #shape: Shape
  #held: Piece | null = null
  #usage: Usage | null = null
  #countedLength = 0

  /** `shape` stands for what the provider has not said yet; `asked`: how many choices the client wants. */
  constructor(provider: string, shape: Shape, asked: number) {
    this.#provider = provider
    this.#shape = shape
    this.choices = new Choices(asked)
  }

  /** What the provider counted; null unless that includes all that was delivered. */
  get usage(): Usage | null {
    const hasNone = this.tally.length > 0 && this.#usage?.completion_tokens === 0
    return hasNone || this.tally.length > this.#countedLength ? null : this.#usage
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
    const last = includeUsage
      ? line(this.#held) + line({ ...this.#shape, choices: [], provider, usage })
      : line({ ...this.#held, provider, usage })
    return this.encode(`${last}data: [DONE]\n\n`)
  }

  /** What ends an answer that broke after its first byte: what was kept back, then the error. */
  failing(error: unknown): string {
    return this.encode((this.#held ? line(withoutFinish(this.#held)) : '') + errorEvent(this.#shape, error))
  }

  protected pass(text: string): void {
    this.#pending += text
  }

  /** Notes what a piece adds to its choices. */
  protected note(piece: Pick<Piece, 'choices'>): void {
    this.tally.add(piece)
    for (const choice of piece.choices) this.choices.note(choice)
  }

  /** Notes what a piece says, keeps back its usage and a finishing piece; the rest is to be written. */
  protected take(piece: Piece): void {
    const lengthBefore = this.tally.length
    this.note(piece)
    if (piece.usage) {
      this.#usage = piece.usage
      this.#countedLength = this.tally.length
    }
    const isSilent = this.tally.length === lengthBefore
    if (isSilent && piece.choices.every(({ index }) => this.choices.hasFinished(index))) return
    const { usage: _usage, ...rest } = piece
    const { id, object, created, model } = rest
    if (!this.begun) this.#shape = { id, object, created, model }
    this.#write(this.begun ? rest : { ...rest, provider: this.#provider })
    this.begun = true
  }

  /**
   * Throws a ProviderError unless the answer is whole: every choice has its finish reason. Where the provider itself says
   * so (`said`), an answer without any reasons is whole, too, and gets those that it must have had.
   */
  protected conclude(said: boolean): void {
    if (this.choices.areWhole(said)) return
    const choices = said && this.tally.length > 0 ? this.choices.impliedFinishes(this.#shape.object) : []
    if (choices.length === 0) throw this.begun ? truncated() : nonsense('the provider sent no answer')
    this.take({ ...this.#shape, choices })
  }

  #write(piece: Piece): void {
    const held = this.#held
    const isLate = held && piece.choices.some(({ index }) => this.choices.hasFinished(index))
    const out = { ...piece, choices: piece.choices.map(choice => this.choices.finishing(choice)) }
    const finish = out.choices.find(choice => choice.finish_reason != null)
    if (finish) {
      if (held) this.pass(this.encode(line(held)))
      this.#held = out
      this.finishReason = finish.finish_reason!
      return
    }
    if (isLate) {
      // What a choice says after its finish still comes after what it said with it.
      this.pass(this.encode(line(withoutFinish(held))))
      this.#held = onlyFinish(held)
    }
    this.pass(this.encode(line(out)))
  }
}

/** The event of contract §2 that ends a stream which cannot go on. */
export function errorEvent(shape: Shape, error: unknown): string {
  return line({ ...shape, error, choices: [emptyChoice(shape.object, 'error')] })
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
    const last = this.#parser.end()
    if (last) unlessHalf(() => this.#take(last))
    this.conclude(this.#decoder.done)
  }

  protected encode(text: string): string {
    return text
  }

  #take(event: ServerSentEvent): void {
    for (const piece of this.#decoder.push(event)) {
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
    for (const piece of this.#decoder.push(event)) {
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

function nonsense(message: string, cause?: unknown): ProviderError {
  return new ProviderError('invalid_response', message, { cause })
}

function truncated(): ProviderError {
  return new ProviderError('truncated', 'the provider ended the stream before the answer was whole')
}
