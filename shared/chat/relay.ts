import { type ServerSentEvent, SseParser } from '../io/sse.ts'
import type { Usage } from '../kinds/usage.ts'
import { ProviderError, type StreamDecoder } from '../providers/contract.ts'
import { Tally } from './tally.ts'

/** One piece of a streamed answer, chat or completion. */
export type Piece = {
  id: string
  object: string
  created: number
  model: string
  choices: { index: number; finish_reason?: string | null; delta?: Record<string, unknown>; text?: string }[]
  usage?: Usage | null
  provider?: string
}

/** How the answer ends: `usage` is what will be shown and billed. */
export type Ending = { usage: Usage; provider: string; includeUsage: boolean }

const encodings = ['latin1', 'utf8'] as const
export type Encoding = (typeof encodings)[number]

/**
 * A stream on its way from a provider to the client. `feed` takes what the provider sent and gives the text to write now;
 * the piece that finishes the answer is kept back until its usage is known and comes with `ending`. Throws ProviderErrors.
 */
export abstract class Relay {
  /** How `feed`'s text is to be written: bytes that pass unchanged are latin1. */
  abstract readonly encoding: Encoding
  readonly tally = new Tally()
  usage: Usage | null = null
  upstreamId: string | null = null
  finishReason: string | null = null
  protected readonly provider: string
  protected first = true
  #shape: Pick<Piece, 'id' | 'object' | 'created' | 'model'> | null = null
  #held: Piece | null = null

  constructor(provider: string) {
    this.provider = provider
  }

  abstract feed(bytes: Buffer): string
  /** The provider closed the connection: gives what was left; throws `truncated` when the answer was not whole. */
  abstract close(): string

  /** The end of a whole answer: the finishing piece, the usage where the client wants it, and the terminator. */
  ending({ usage, provider, includeUsage }: Ending): string {
    const held = this.#held ?? { ...this.shape, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
    if (!includeUsage) return `${line({ ...held, provider, usage })}data: [DONE]\n\n`
    return `${this.#held ? line(held) : ''}${line({ ...this.shape, choices: [], provider, usage })}data: [DONE]\n\n`
  }

  /** The event of contract §2 that ends an answer which broke after its first byte. */
  failing(error: unknown): string {
    return line({ ...this.shape, error, choices: [{ index: 0, delta: {}, finish_reason: 'error' }] })
  }

  protected get shape() {
    return this.#shape ?? { id: '', object: 'chat.completion.chunk', created: Math.floor(Date.now() / 1000), model: '' }
  }

  /** Notes what a piece says, keeps back its usage and a finishing piece; gives what can be written now. */
  protected take(piece: Piece): string {
    if (piece.usage) this.usage = piece.usage
    this.#shape ??= { id: piece.id, object: piece.object, created: piece.created, model: piece.model }
    if (piece.choices.length === 0) return ''
    const finishing = piece.choices.find(choice => choice.finish_reason != null)
    const { usage: _usage, ...rest } = piece
    const out = this.first ? { ...rest, provider: this.provider } : rest
    this.first = false
    if (!finishing) return line(out)
    this.finishReason = finishing.finish_reason!
    const before = this.#held ? line(this.#held) : ''
    this.#held = out
    return before
  }
}

function line(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`
}

/** For providers with a dialect of their own: events are decoded to pieces and written anew. */
export class TranslatingRelay extends Relay {
  readonly encoding = 'utf8'
  readonly #decoder: StreamDecoder<Piece>
  readonly #parser = new SseParser()
  readonly #id: string

  constructor(provider: string, decoder: StreamDecoder<Piece>, id: string) {
    super(provider)
    this.#decoder = decoder
    this.#id = id
  }

  feed(bytes: Buffer): string {
    let out = ''
    for (const event of parsed(() => this.#parser.push(bytes))) out += this.#decode(event)
    return out
  }

  close(): string {
    const last = this.#parser.end()
    const out = last ? this.#decode(last) : ''
    if (!this.#decoder.done) throw truncated()
    return out
  }

  #decode(event: ServerSentEvent): string {
    let out = ''
    for (const piece of this.#decoder.push(event)) {
      this.upstreamId ??= piece.id
      this.tally.addPiece(piece)
      out += this.take({ ...piece, id: this.#id })
    }
    return out
  }
}

const finishingMarks = [
  '"finish_reason":"',
  '"finish_reason": "',
  '"usage":{',
  '"usage": {',
  '[DONE]',
  '"error":',
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
  #rest = ''
  #terminated = false

  constructor(provider: string, decoder: StreamDecoder<Piece>, choices: number) {
    super(provider)
    this.#decoder = decoder
    this.#choices = choices
  }

  feed(bytes: Buffer): string {
    const text = bytes.toString('latin1')
    if (this.#rest === '' && !this.first && text.endsWith('\n\n') && !isInteresting(text)) {
      this.tally.addRaw(text)
      return text
    }
    const all = this.#rest + text
    const end = lastBlankLine(all)
    if (all.length - end > 32 * 1024 * 1024)
      throw new ProviderError('invalid_response', 'an event of the stream is too long')
    this.#rest = all.slice(end)
    return this.#events(all.slice(0, end))
  }

  close(): string {
    const out = this.#rest.trim() === '' ? '' : this.#events(`${this.#rest}\n\n`)
    if (!this.#terminated && this.#finished.size < this.#choices) throw truncated()
    return out
  }

  #events(text: string): string {
    let out = ''
    for (let from = 0; from < text.length; ) {
      const next = nextEvent(text, from)
      const raw = text.slice(from, next)
      from = next
      if (this.#terminated) continue
      if (this.first || isInteresting(raw)) out += this.#look(raw)
      else {
        this.tally.addRaw(raw)
        out += raw
      }
    }
    return out
  }

  #look(raw: string): string {
    const [event] = new SseParser().push(Buffer.from(raw, 'latin1'))
    if (!event) return raw // A comment: keeps the connection alive for the client, too.
    if (event.data.trim() === '[DONE]') {
      this.#terminated = true
      return ''
    }
    // The decoder knows how errors and usage look; the bytes' own JSON keeps fields it does not know.
    const pieces = this.#decoder.push(event)
    const original = parsed(() => JSON.parse(event.data) as Piece)
    let out = ''
    for (const piece of pieces) {
      this.upstreamId ??= piece.id
      this.tally.addPiece(piece)
      for (const choice of piece.choices) if (choice.finish_reason != null) this.#finished.add(choice.index)
      const taken = this.take({ ...original, choices: original.choices ?? [], usage: piece.usage ?? null })
      out += Buffer.from(taken, 'utf8').toString('latin1')
    }
    return out
  }

  override ending(ending: Ending): string {
    return Buffer.from(super.ending(ending), 'utf8').toString('latin1')
  }

  override failing(error: unknown): string {
    return Buffer.from(super.failing(error), 'utf8').toString('latin1')
  }
}

function isInteresting(text: string): boolean {
  for (const mark of finishingMarks) if (text.includes(mark)) return true
  return false
}

/** Where the event that starts at `from` ends, its blank line included. `text` holds whole events only. */
function nextEvent(text: string, from: number): number {
  for (let at = text.indexOf('\n', from); at >= 0; at = text.indexOf('\n', at + 1)) {
    if (text[at + 1] === '\n') return at + 2
    if (text[at + 1] === '\r' && text[at + 2] === '\n') return at + 3
  }
  return text.length
}

function lastBlankLine(text: string): number {
  const unix = text.lastIndexOf('\n\n')
  const dos = text.lastIndexOf('\n\r\n')
  return Math.max(unix < 0 ? 0 : unix + 2, dos < 0 ? 0 : dos + 3)
}

function parsed<T>(parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (error instanceof ProviderError) throw error
    throw new ProviderError('invalid_response', 'the stream could not be understood', { cause: error })
  }
}

function truncated(): ProviderError {
  return new ProviderError('truncated', 'the provider ended the stream before the answer was whole')
}
