import type { GatewayError } from '../base/errors.ts'
import type { Usage } from '../base/usage.ts'
import { type ServerSentEvent, SseParser } from '../io/sse.ts'
import type { MessageEvent } from '../kinds/messages.ts'
import type { ResponsesEvent, ResponsesObject } from '../kinds/responses-answer.ts'
import type { StreamDecoder } from '../providers/stream-decoder.ts'
import { ignoreIncomplete, parseOrThrow } from './choices-relay.ts'
import { DeliveredOutput } from './delivered-output.ts'
import { type AnswerRelay, maxOpeningCharacters, type StreamEnding, truncatedError } from './stream-relay.ts'

/**
 * Relays a stream whose events have types, in Anthropic's or OpenAI's Responses format. Nothing is written before there
 * is output, until which another provider can still take over.
 */
export abstract class EventRelay implements AnswerRelay {
  abstract readonly encoding: 'latin1' | 'utf8'
  abstract readonly usage: Usage | null
  abstract readonly reported: Usage | null
  readonly output = new DeliveredOutput()
  upstreamId: string | null = null
  upstreamModel: string | null = null
  finishReason: string | null = null
  over = false
  hasOutput = false
  #pendingText = ''

  abstract feed(bytes: Buffer, part?: number): void
  abstract close(part?: number): void
  abstract formatEnding(ending: StreamEnding): string
  abstract formatFailure(failure: GatewayError, response?: ResponsesObject): string

  flush(): string {
    if (!this.hasOutput) return ''
    const text = this.#pendingText
    this.#pendingText = ''
    return text
  }

  protected pass(text: string): void {
    this.#pendingText += text
    this.hasOutput ||= this.#pendingText.length > maxOpeningCharacters
  }
}

/** What a relay does with translated events: it writes each, and completes its answer, or throws a ProviderError, after the last. */
type EventSink<E> = { write(event: E): void; complete(): void }

/** Feeds a relay with the events that a decoder makes of the answers to the requests of one call. */
export class TranslatedEvents<E> {
  readonly #relay: EventRelay
  readonly #decoder: StreamDecoder<E>
  readonly #sink: EventSink<E>
  readonly #parsers: SseParser[]
  /** Number of requests whose answers have not ended. */
  #open: number

  /** `parts`: number of requests of the call. */
  constructor(relay: EventRelay, decoder: StreamDecoder<E>, parts: number, sink: EventSink<E>) {
    this.#relay = relay
    this.#decoder = decoder
    this.#sink = sink
    this.#parsers = Array.from({ length: parts }, () => new SseParser())
    this.#open = parts
  }

  feed(bytes: Buffer, part = 0): void {
    for (const event of parseOrThrow(() => this.#parsers[part]!.push(bytes))) {
      if (this.#relay.over) return
      this.#accept(event, part)
      // Some servers keep the connection open after the terminator.
      const isEnd = this.#decoder.over === true || event.data.trim() === '[DONE]'
      if (isEnd && this.#open === 1 && !this.#relay.over) this.#end()
    }
  }

  close(part = 0): void {
    if (this.#relay.over) return
    const last = this.#parsers[part]!.end()
    if (last) ignoreIncomplete(() => this.#accept(last, part))
    if (--this.#open > 0 || this.#relay.over) return
    if (this.#relay.upstreamId !== null && !this.#decoder.done) throw truncatedError()
    this.#end()
  }

  #accept(event: ServerSentEvent, part: number): void {
    const events = this.#decoder.push(event, part)
    this.#relay.output.note(this.#decoder)
    for (const one of events) this.#sink.write(one)
  }

  /** Writes what remains of an answer whose last event came. */
  #end(): void {
    for (const event of this.#decoder.end?.() ?? []) this.#sink.write(event)
    this.#sink.complete()
  }
}

/** An event as it is written to the client. */
export function formatTypedEvent(event: MessageEvent | ResponsesEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
}
