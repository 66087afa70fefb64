import type { ShownUsage, Usage } from '../base/usage.ts'
import type { ServerSentEvent } from '../io/sse.ts'
import { ProviderError } from '../providers/contract.ts'
import { type Choice, Choices, emptyChoice, onlyFinish, withoutFinish } from './choices.ts'
import { Tally } from './tally.ts'
import { Unread } from './unread.ts'

/** What all pieces of one streamed answer have in common; `model` is our own name of it. */
export type Shape = { id: string; object: string; created: number; model: string; system_fingerprint?: unknown }

/** One piece of a streamed answer, chat or completion. */
export type Piece = Shape & { choices: Choice[]; usage?: Usage | null; provider?: string }

/** How the answer ends: `usage` is what will be shown and billed. */
export type Ending = { usage: ShownUsage; provider: string }

/** What the client asked for: how many choices, and whether the usage comes in a chunk of its own. */
export type Asked = { choices: number; includeUsage: boolean }

export type Encoding = 'latin1' | 'utf8'

/** An opening is not kept back beyond this. */
const mostOpeningCharacters = 16 * 1024

/**
 * A stream on its way from a provider to the client. `feed` takes what the provider sent, `flush` gives the text to write
 * now; the piece that finishes the answer is kept back until its usage is known and comes with `ending`.
 */
export abstract class Relay {
  /** How the text is to be written: bytes that pass unchanged are latin1. */
  abstract readonly encoding: Encoding
  readonly tally = new Tally()
  upstreamId: string | null = null
  /** What the provider calls the model. */
  upstreamModel: string | null = null
  finishReason: string | null = null
  /** True once a part of the answer came, be it kept back. */
  begun = false
  /** True once the provider has said that nothing more will come. */
  over = false
  protected readonly choices: Choices
  /** True once the provider has closed the connection: what is read then may be half an event. */
  protected isClosing = false
  readonly #unread = new Unread()
  readonly #provider: string
  readonly #model: string
  readonly #includeUsage: boolean
  #pending = ''
  #shape: Shape
  #held: Piece | null = null
  #usage: Usage | null = null
  #countedLength = 0

  /** `shape` stands for what the provider has not said yet. */
  constructor(provider: string, shape: Shape, { choices, includeUsage }: Asked) {
    this.#provider = provider
    this.#model = shape.model
    this.#includeUsage = includeUsage
    this.#shape = shape
    this.choices = new Choices(choices)
  }

  /** What the provider counted; null unless that includes all that was delivered. */
  get usage(): Usage | null {
    if (this.#lacks) return null
    const hasNone = this.tally.length > 0 && this.#usage?.completion_tokens === 0
    return hasNone || this.tally.length > this.#countedLength ? null : this.#usage
  }

  /** What the provider has counted so far, which may lack the latest output. */
  get reported(): Usage | null {
    return this.#usage
  }

  /** Bytes of the answer to one of the call's requests. Throws a ProviderError; what came before the fault is still to be flushed. */
  abstract feed(bytes: Buffer, part?: number): void

  /** The provider closed the connection of one of the call's requests. Throws a ProviderError when the answer was not whole. */
  abstract close(part?: number): void

  /** True once there is something to write: until a piece says something, another provider can still take over. */
  get speaks(): boolean {
    return this.tally.length > 0 || this.finishReason !== null || this.#pending.length > mostOpeningCharacters
  }

  flush(): string {
    if (!this.speaks) return ''
    const text = this.#pending
    this.#pending = ''
    return text
  }

  /** Text of ours in the encoding in which everything is written. */
  protected abstract encode(text: string): string

  /** The end of a whole answer: the finishing piece, the usage where the client wants it, and the terminator. */
  ending({ usage, provider }: Ending): string {
    const last = this.#includeUsage
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

  /**
   * The pieces that `read` decodes from an event. Once the answer is being shown, an event that is malformed is passed over where nothing is lost, or, with
   * `canProveWhole`, where the end can show that nothing was.
   */
  protected decode(event: ServerSentEvent, read: () => Piece[], canProveWhole: boolean): Piece[] {
    try {
      return read()
    } catch (error) {
      if (!this.speaks || this.isClosing) throw error
      this.#unread.passOver(event, error, canProveWhole)
      return []
    }
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
    const { usage: _usage, system_fingerprint, ...rest } = piece
    const model = this.#model
    // Not every client takes a null there, while all take a chunk without it.
    const fingerprint = system_fingerprint == null ? null : { system_fingerprint }
    const { id, object, created } = rest
    if (!this.begun) this.#shape = { id, object, created, model, ...fingerprint }
    const provider = this.begun ? null : { provider: this.#provider }
    // As OpenAI does: no chunk but the last names its usage, or all do.
    const noUsage = this.#includeUsage ? { usage: null } : null
    this.#write({ ...rest, model, ...fingerprint, ...provider, ...noUsage })
    this.begun = true
  }

  /** Notes whose answer it is, as far as the provider says. */
  protected noteSource({ id, model }: Piece): void {
    this.upstreamId ??= id
    this.upstreamModel ??= model || null
  }

  /**
   * Throws a ProviderError unless the answer is whole: every choice has its finish reason. Where the provider itself says
   * so (`said`), an answer without any reasons is whole, too, and gets those that it must have had. An answer with events that
   * could not be read is whole where they cannot have held a part of it.
   */
  protected conclude(said: boolean): void {
    const { fault, mayHoldAnswer } = this.#unread
    if (this.choices.areWhole(said)) {
      if (this.#lacks) throw fault
      return
    }
    const implies = said && this.tally.length > 0 && !mayHoldAnswer
    const choices = implies ? this.choices.impliedFinishes(this.#shape.object) : []
    if (choices.length === 0) throw fault ?? (this.begun ? truncated() : nonsense('the provider sent no answer'))
    this.take({ ...this.#shape, choices })
  }

  /** Whether a part of the answer may be lost: fewer pieces came than tokens were counted. */
  get #lacks(): boolean {
    if (!this.#unread.mayHoldAnswer) return false
    const counted = this.#usage?.completion_tokens ?? 0
    return counted === 0 || this.tally.additions < counted
  }

  #write(piece: Piece): void {
    const held = this.#held
    const isLate = held && piece.choices.some(({ index }) => this.choices.hasFinished(index))
    const out = piece.choices.some(isFinishing)
      ? { ...piece, choices: piece.choices.map(choice => this.choices.finishing(choice)) }
      : piece
    const finish = out.choices.find(isFinishing)
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

function isFinishing({ finish_reason }: Choice): boolean {
  return finish_reason != null
}

function line(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`
}

/** What the provider sent is no answer. */
export function nonsense(message: string, cause?: unknown): ProviderError {
  return new ProviderError('invalid_response', message, { cause })
}

function truncated(): ProviderError {
  return new ProviderError('truncated', 'the provider ended the stream before the answer was whole')
}
