import { isAscii } from 'node:buffer'
import { EventCutter, parseEvent, type ServerSentEvent, SseParser, splitEvents } from '../io/sse.ts'
import type { DirectKind } from '../kinds/index.ts'
import type { Call, DirectAdapter } from '../providers/contract.ts'
import { ProviderError } from '../providers/provider-error.ts'
import type { StreamDecoder } from '../providers/stream-decoder.ts'
import { additionOf } from './choices.ts'
import { type Repeat, Repeats } from './repeats.ts'
import { asBytes, Splicer } from './splice.ts'
import { type Chunk, type ChunkHead, invalidResponse, type StreamOptions, StreamRelay } from './stream-relay.ts'

/** Creates the relay of one streaming call: a native dialect is forwarded as bytes. */
export function relayFor<K extends DirectKind>(
  { adapter, call, requests }: { adapter: DirectAdapter<K>; call: Call<K>; requests: readonly unknown[] },
  shape: ChunkHead,
  options: StreamOptions,
): StreamRelay {
  const provider = call.target.provider.name
  const decoder = adapter.stream!(call) as StreamDecoder<unknown> as StreamDecoder<Chunk>
  return adapter.native
    ? new PassingRelay(provider, decoder, shape, options)
    : new TranslatingRelay(provider, decoder, shape, options, requests.length)
}

/**
 * For foreign dialects and calls of several requests: decodes events to chunks and serializes them again, as they
 * arrive.
 */
class TranslatingRelay extends StreamRelay {
  readonly encoding = 'utf8'
  readonly #decoder: StreamDecoder<Chunk>
  readonly #parsers: SseParser[]
  /** Number of requests whose answers have not ended. */
  #open: number
  readonly #id: string

  /** `parts`: number of requests of the call. */
  constructor(
    provider: string,
    decoder: StreamDecoder<Chunk>,
    shape: ChunkHead,
    options: StreamOptions,
    parts: number,
  ) {
    super(provider, shape, options)
    this.#decoder = decoder
    this.#parsers = Array.from({ length: parts }, () => new SseParser())
    this.#open = parts
    this.#id = shape.id
  }

  feed(bytes: Buffer, part = 0): void {
    for (const event of parseOrThrow(() => this.#parsers[part]!.push(bytes))) this.#accept(event, part)
    this.over = this.#decoder.over === true
    if (this.over) this.assertComplete(true)
  }

  close(part = 0): void {
    if (this.over) return
    const last = this.#parsers[part]!.end()
    this.isClosing = true
    if (last) ignoreIncomplete(() => this.#accept(last, part))
    this.isClosing = --this.#open === 0
    if (!this.isClosing) return
    for (const chunk of this.#decoder.end?.() ?? []) this.accept({ ...chunk, id: this.#id })
    this.assertComplete(this.#decoder.done)
  }

  protected encode(text: string): string {
    return text
  }

  #accept(event: ServerSentEvent, part: number): void {
    // Its chunks have many tokens each, so a missing one could not be detected.
    const chunks = this.decode(event, () => this.#decoder.push(event, part), false)
    this.output.note(this.#decoder)
    for (const chunk of chunks) {
      this.recordSource(chunk)
      this.accept({ ...chunk, id: this.#id })
    }
  }
}

/**
 * For native dialects: forwards bytes unchanged. Parses every event unless it repeats an earlier one except for its
 * text, so that only understood events pass; the first event and those with a finish, usage or error are serialized
 * again. In all others the model name and the optional members of OpenAI's chunks are edited in place.
 */
class PassingRelay extends StreamRelay {
  readonly encoding = 'latin1'
  readonly #decoder: StreamDecoder<Chunk>
  readonly #isChat: boolean
  readonly #cutter = new EventCutter()
  readonly #splicer: Splicer
  readonly #repeats = new Repeats()

  constructor(provider: string, decoder: StreamDecoder<Chunk>, shape: ChunkHead, options: StreamOptions) {
    super(provider, shape, options)
    this.#decoder = decoder
    this.#splicer = new Splicer({ model: shape.model, includeUsage: options.includeUsage })
    this.#isChat = shape.object !== 'text_completion'
  }

  feed(bytes: Buffer): void {
    const position = this.#passRepeats(bytes)
    if (position === bytes.length) return
    const { isEmpty } = this.#cutter
    const rest = position === 0 ? bytes : bytes.subarray(position)
    const events = parseOrThrow(() => this.#cutter.push(rest.toString('latin1')))
    this.#accept(events, isEmpty && events.length === rest.length ? rest : Buffer.from(events, 'latin1'))
    if (this.over) this.assertComplete(true)
  }

  /** Forwards the repeating events at the start of a packet; returns their length in bytes. */
  #passRepeats(bytes: Buffer): number {
    let position = 0
    if (!this.#cutter.isEmpty || this.over) return position
    while (position < bytes.length) {
      const repeat = this.#repeatAt(bytes, position)
      if (!repeat) break
      this.pass(repeat.passing)
      position = repeat.end
    }
    return position
  }

  /** Records the event at this position if it repeats an earlier one; null otherwise. */
  #repeatAt(bytes: Buffer, at: number): Repeat | null {
    const repeat = this.#repeats.match(bytes, at)
    if (!repeat || this.choices.hasFinished(this.#repeats.index)) return null
    this.output.addText(repeat.text)
    return repeat
  }

  close(): void {
    if (this.over) return
    this.isClosing = true
    const rest = this.#cutter.rest().trim()
    if (rest !== '') ignoreIncomplete(() => this.#accept(`${rest}\n\n`, Buffer.from(rest, 'latin1')))
    this.assertComplete(this.over)
  }

  /** As latin1 characters of the text's UTF-8 bytes, like the forwarded bytes. */
  protected encode(text: string): string {
    return asBytes(text)
  }

  /** `events`: complete events as latin1 text of `bytes`. */
  #accept(events: string, bytes: Buffer): void {
    const raws = splitEvents(events)
    const texts = isAscii(bytes) ? raws : splitEvents(bytes.toString())
    let position = 0
    let end = 0
    for (const [i, raw] of raws.entries()) {
      const start = end
      end += raw.length
      const repeat = this.#repeatAt(bytes, start)
      const event = repeat ? null : parseEvent(texts[i]!)
      const passing = repeat ? repeat.passing : this.#passing(event, raw, texts[i] === raw)
      if (passing === raw) continue
      this.pass(events.slice(position, start))
      position = end
      if (passing !== null) this.pass(passing)
      else if (event) this.#rewrite(event)
      if (this.over) return
    }
    this.pass(events.slice(position))
  }

  /**
   * The forwarded text of an event: a comment, or a chunk that only adds to choices, which is recorded. Null otherwise.
   */
  #passing(event: ServerSentEvent | null, raw: string, isAscii: boolean): string | null {
    if (!this.hasChunks) return null
    if (!event) return raw
    const addition = additionOf(event, this.#isChat)
    if (!addition || addition.choices.some(({ index }) => this.choices.hasFinished(index))) return null
    const text = this.#splicer.splice(raw, addition)
    if (text === null || this.#decoder.passes?.(addition) === false) return null
    this.record(addition)
    if (isAscii) this.#repeats.learn(raw, addition, this.#splicer)
    return text
  }

  #rewrite(event: ServerSentEvent): void {
    for (const chunk of this.decode(event, () => this.#decoder.push(event), true)) {
      this.recordSource(chunk)
      this.accept(chunk)
    }
    this.over = event.data.trim() === '[DONE]'
  }
}

/** Parses part of a stream. Throws a ProviderError `invalid_response`. */
export function parseOrThrow<T>(parse: () => T): T {
  try {
    return parse()
  } catch (cause) {
    throw invalidResponse('the stream could not be understood', cause)
  }
}

/** Reads an event without its end: a malformed one is truncated and ignored. */
export function ignoreIncomplete(read: () => void): void {
  try {
    read()
  } catch (error) {
    if (!(error instanceof ProviderError && error.reason === 'invalid_response')) throw error
  }
}
