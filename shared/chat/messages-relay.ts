import { isAscii } from 'node:buffer'
import type { GatewayError } from '../base/errors.ts'
import { isCount, type ShownUsage, type Usage } from '../base/usage.ts'
import { messagesErrorEvent } from '../engine/messages-error.ts'
import { EventCutter, parseEvent, splitEvents } from '../io/sse.ts'
import { isSearchResult, type MessageEvent, messageTexts } from '../kinds/messages.ts'
import { finishReasonOf, messagesUsage, usageOfMessages } from '../kinds/messages-usage.ts'
import type { Call, DirectAdapter } from '../providers/contract.ts'
import type { StreamDecoder } from '../providers/stream-decoder.ts'
import type { StreamInfo } from './chat-format.ts'
import { parseOrThrow } from './choices-relay.ts'
import { EventRelay, formatTypedEvent, TranslatedEvents } from './event-relay.ts'
import { DeltaRepeats } from './repeats.ts'
import { asBytes } from './splice.ts'
import { type AnswerRelay, invalidResponse, truncatedError } from './stream-relay.ts'

/** The run's id of the answer, the id of its request for errors, and whether what it states is billed. */
type Info = Pick<StreamInfo<'messages'>, 'id' | 'requestId' | 'isBilled'>
type MessageDelta = Extract<MessageEvent, { type: 'message_delta' }>

/** Creates the relay of one streamed Messages answer. `parts`: number of requests of the call. */
export function messagesRelayFor(
  {
    adapter,
    call,
    requests,
  }: {
    adapter: DirectAdapter<'messages'>
    call: Call<'messages'>
    requests: readonly unknown[]
  },
  info: Info,
): AnswerRelay {
  const decoder = adapter.stream!(call)
  return adapter.native
    ? new PassingMessagesRelay(decoder, info)
    : new TranslatingMessagesRelay(decoder, info, call.target.model.id, requests.length)
}

/**
 * Relays the events of a Messages stream. Nothing is written before the first content block, until which another
 * provider can still take over; `message_stop` is kept back until the answer is billed, and so are the last counts where they may
 * not be what is billed.
 */
abstract class MessagesRelay extends EventRelay {
  /** Whether the last counts are always kept back: where they are passed as they came, only those that cannot be true are. */
  protected abstract readonly delaysCounts: boolean
  protected readonly decoder: StreamDecoder<MessageEvent>
  readonly #info: Info
  readonly #openBlocks = new Set<number>()
  #lastUsage: Partial<Parameters<typeof usageOfMessages>[0]> = {}
  /** The end of a message whose counts may be replaced. */
  #pending: MessageDelta | null = null

  constructor(decoder: StreamDecoder<MessageEvent>, info: Info) {
    super()
    this.decoder = decoder
    this.#info = info
  }

  /** The provider's usage; null until the final one came. */
  get usage(): Usage | null {
    return this.finishReason === null ? null : this.#counted
  }

  get #counted(): Usage | null {
    return this.decoder.usage ?? usageOfMessages(this.#lastUsage) ?? null
  }

  /** The provider's latest usage, at least of the prompt. */
  get reported(): Usage | null {
    return this.usage ?? this.decoder.promptUsage ?? null
  }

  /** Writes the counts that were kept back, as they are billed. */
  restate(billed: ShownUsage): void {
    if (!this.#pending) return
    const isBilled = this.#info.isBilled(this.#counted, this.#lastUsage, billed)
    this.passEvent(
      isBilled && statesOutput(this.#pending) ? this.#pending : { ...this.#pending, usage: messagesUsage(billed) },
    )
  }

  formatEnding(): string {
    return this.flush() + formatTypedEvent({ type: 'message_stop' })
  }

  formatFailure(failure: GatewayError): string {
    return this.encode(messagesErrorEvent(failure, this.#info.requestId))
  }

  /** The event as it is written: without counts that cannot be true; null if it is kept back until the answer is billed. */
  protected restated(event: MessageEvent): MessageEvent | null {
    if (event.type === 'message_start') {
      const { usage } = event.message
      const begun = usageOfMessages({ input_tokens: 0, output_tokens: 0, ...withoutNull(usage ?? {}) })
      // Clients read the counts of a message that has none as well.
      if (isCount(usage?.input_tokens) && this.#info.isBilled(begun, usage)) return event
      return { ...event, message: { ...event.message, usage: messagesUsage(null) } }
    }
    if (event.type !== 'message_delta') return event
    const { prompt_tokens = 0, completion_tokens = 0 } = this.#counted ?? {}
    // Where none is stated, the bill may have a count of ours.
    const hasCounts = prompt_tokens > 0 && completion_tokens > 0 && statesOutput(event)
    const isCertain = hasCounts && !this.delaysCounts && !this.#pending
    if (isCertain && this.#info.isBilled(this.#counted, this.#lastUsage)) return event
    this.#pending = { ...event, delta: { ...this.#pending?.delta, ...event.delta } }
    return null
  }

  protected passEvent(event: MessageEvent): void {
    this.pass(this.encode(formatTypedEvent(event)))
  }

  /** Text as the relay writes it. */
  protected encode(text: string): string {
    return this.encoding === 'latin1' ? asBytes(text) : text
  }

  /** Records what an event adds to the answer. */
  protected record(event: MessageEvent): void {
    switch (event.type) {
      case 'message_start':
        this.upstreamId = event.message.id
        this.upstreamModel = event.message.model || null
        this.#lastUsage = { ...event.message.usage }
        // That of the first tokens: an answer whose end states none would be billed as if it had no more.
        delete this.#lastUsage.output_tokens
        break
      case 'content_block_start':
        this.hasOutput = true
        this.#openBlocks.add(event.index)
        for (const text of messageTexts([event.content_block])) this.output.addText(text)
        if (isSearchResult(event.content_block)) this.output.webSearches++
        break
      case 'content_block_delta':
        this.output.addText(textOf(event.delta))
        break
      case 'content_block_stop':
        this.#openBlocks.delete(event.index)
        break
      case 'message_delta':
        Object.assign(this.#lastUsage, withoutNull(event.usage ?? {}))
        if (event.delta.stop_reason == null) break
        this.finishReason = finishReasonOf(event.delta.stop_reason)
        this.hasOutput = true
        break
      case 'message_stop':
        this.over = true
    }
  }

  /** Throws a ProviderError unless the answer has its stop reason and every block has ended. */
  protected assertComplete(): void {
    if (this.finishReason !== null && this.#openBlocks.size === 0) return
    throw this.upstreamId === null ? invalidResponse('the provider sent no answer') : truncatedError()
  }
}

/**
 * For native dialects: forwards the bytes of events unchanged. Parses every event unless it repeats an earlier one except
 * for its text.
 */
class PassingMessagesRelay extends MessagesRelay {
  readonly encoding = 'latin1'
  protected readonly delaysCounts = false
  readonly #cutter = new EventCutter()
  readonly #repeats = new DeltaRepeats()

  feed(bytes: Buffer): void {
    const position = this.#passRepeats(bytes)
    if (position === bytes.length) return
    const { isEmpty } = this.#cutter
    const rest = position === 0 ? bytes : bytes.subarray(position)
    const events = parseOrThrow(() => this.#cutter.push(rest.toString('latin1')))
    this.#accept(events, isEmpty && events.length === rest.length ? rest : Buffer.from(events, 'latin1'))
  }

  close(): void {
    if (this.over) return
    const rest = this.#cutter.rest().trim()
    if (rest.endsWith('}')) this.#accept(`${rest}\n\n`, Buffer.from(`${rest}\n\n`, 'latin1'))
    this.assertComplete()
  }

  /** Forwards the repeating events at the start of a packet; returns their length in bytes. */
  #passRepeats(bytes: Buffer): number {
    let position = 0
    if (!this.#cutter.isEmpty || this.over) return position
    for (let repeat = this.#repeats.match(bytes, 0); repeat; repeat = this.#repeats.match(bytes, position)) {
      this.output.addText(repeat.text)
      position = repeat.end
    }
    if (position > 0) this.pass(bytes.toString('latin1', 0, position))
    return position
  }

  /** `events`: complete events as latin1 text of `bytes`. */
  #accept(events: string, bytes: Buffer): void {
    const raws = splitEvents(events)
    const texts = isAscii(bytes) ? raws : splitEvents(bytes.toString())
    let start = 0
    for (const [i, raw] of raws.entries()) {
      if (this.over) return
      const repeat = this.#repeats.match(bytes, start)
      if (repeat) this.output.addText(repeat.text)
      const isRestated = !repeat && this.#read(texts[i]!, texts[i] === raw)
      if (this.over) this.assertComplete()
      else if (!isRestated) this.pass(raw)
      start += raw.length
    }
  }

  /** Parses and records an event. True if it is written in another form. */
  #read(text: string, isAscii: boolean): boolean {
    const event = parseEvent(text)
    let isRestated = false
    for (const one of event ? this.decoder.push(event) : []) {
      this.record(one)
      const shown = this.restated(one)
      if (isAscii) this.#repeats.learn(text, one)
      if (shown === one) continue
      isRestated = true
      if (shown) this.passEvent(shown)
    }
    return isRestated
  }
}

/** For translated answers: writes the events that the decoder makes. */
class TranslatingMessagesRelay extends MessagesRelay {
  readonly encoding = 'utf8'
  protected readonly delaysCounts = true
  readonly #events: TranslatedEvents<MessageEvent>
  readonly #id: string
  readonly #model: string

  constructor(decoder: StreamDecoder<MessageEvent>, info: Info, model: string, parts: number) {
    super(decoder, info)
    this.#events = new TranslatedEvents(this, decoder, parts, {
      write: event => this.#write(event),
      complete: () => {
        if (!this.over) this.assertComplete()
      },
    })
    this.#id = info.id
    this.#model = model
  }

  feed(bytes: Buffer, part?: number): void {
    this.#events.feed(bytes, part)
  }

  close(part?: number): void {
    this.#events.close(part)
  }

  #write(event: MessageEvent): void {
    this.record(event)
    const shown = this.restated(event)
    if (shown?.type === 'message_stop') this.assertComplete()
    else if (shown?.type === 'message_start')
      this.passEvent({ ...shown, message: { ...shown.message, id: this.#id, model: this.#model } })
    else if (shown) this.passEvent(shown)
  }
}

/** Whether the end of a message has its output count, as clients expect: `@anthropic-ai/sdk` throws where it has no usage. */
function statesOutput({ usage }: MessageDelta): boolean {
  return isCount(usage?.output_tokens)
}

function textOf(delta: object): string {
  const { text, thinking, partial_json } = delta as Record<string, unknown>
  const added = text ?? thinking ?? partial_json
  return typeof added === 'string' ? added : ''
}

/** Later reports repeat the counters they do not change as null. */
function withoutNull(usage: object): object {
  return Object.fromEntries(Object.entries(usage).filter(([, count]) => count !== null))
}
