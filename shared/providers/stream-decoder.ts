import type { Usage } from '../base/usage.ts'
import type { ChatChunk } from '../kinds/chat.ts'
import { visitDeltaTexts } from '../kinds/chat-delta.ts'

/** One server-sent event: `event` is its name ('' when it has none), `data` its data lines joined by \n. */
export type SseEvent = { event: string; data: string }

const blank = /^\s*(?:null|\{\s*\})?\s*$/

/**
 * Whether an event has no content. Proxies before servers of OpenAI's dialects send `null` or `{}` to keep a connection open
 * (Kilo-Org/kilocode#3083, NousResearch/hermes-agent#80822, earendil-works/pi#2466).
 */
export function isBlank(data: string): boolean {
  return data.length < 8 && blank.test(data)
}

/** An event of the native dialect that only adds to its choices. */
export type NativeEvent = {
  choices: { index: number; delta?: Record<string, unknown>; usage?: unknown }[]
  x_groq?: unknown
  created?: unknown
}

/**
 * Decodes a provider's events to our chunks. `push` returns the chunks of one event and throws a ProviderError when the
 * event reports an error or is malformed. `done`: the provider has marked the response complete; a stream that closes
 * before was truncated. `over`: the final event has arrived, in dialects that have one; nothing follows. `part`: which
 * of the call's requests an event belongs to, where there are several. `usage`: the usage so far in our shape, for kinds
 * whose chunks have another, undefined until it is whole; `promptUsage`: that of the prompt, which comes first; `webSearches`:
 * how often the model has searched so far, where the chunks do not show it; `received`: the characters of the answer that have
 * come so far, where the chunks may not have all of them. `end` returns the last chunks of a response
 * whose connection has closed. `passes`: whether a native event that only adds to its choices can be forwarded as
 * received; it is recorded if so, and must be pushed if not. `rewrote`: whether what the last event gave differs from what was
 * received, so that its bytes cannot be forwarded.
 */
export type StreamDecoder<C> = {
  push(event: SseEvent, part?: number): C[]
  readonly done: boolean
  readonly over?: boolean
  readonly usage?: Usage | undefined
  readonly promptUsage?: Usage | undefined
  readonly webSearches?: number | undefined
  readonly received?: number | undefined
  end?(): C[]
  passes?(event: NativeEvent): boolean
  readonly rewrote?: boolean
}

/** A decoder of what another one decodes: subclasses say what they make of its chunks. */
export abstract class WrappingDecoder<From, To> implements StreamDecoder<To> {
  protected readonly decoder: StreamDecoder<From>

  constructor(decoder: StreamDecoder<From>) {
    this.decoder = decoder
  }

  abstract push(event: SseEvent, part?: number): To[]

  get done(): boolean {
    return this.decoder.done
  }

  get over(): boolean {
    return this.decoder.over === true
  }

  get webSearches(): number | undefined {
    return this.decoder.webSearches
  }

  get received(): number | undefined {
    return this.decoder.received
  }
}

/**
 * A decoder that keeps back a part of a chat answer until it is whole, such as a call whose name or arguments are changed, or leaves
 * it out, such as the text around JSON. Its provider bills all that has come.
 */
export abstract class HoldingDecoder<To> extends WrappingDecoder<ChatChunk, To> {
  #received = 0
  readonly #count = (text: string): void => {
    this.#received += text.length
  }

  /** The chunks of an event, which count as received. */
  protected receive(event: SseEvent, part?: number): ChatChunk[] {
    const chunks = this.decoder.push(event, part)
    // Otherwise the decoder within has counted them.
    if (this.decoder.received === undefined)
      for (const { choices } of chunks) for (const { delta } of choices) visitDeltaTexts(delta, this.#count)
    return chunks
  }

  override get received(): number {
    return this.decoder.received ?? this.#received
  }
}

/** A decoder that gives chunks of chat, too. Those that come once the connection has closed have no choices to change. */
export abstract class ChatHoldingDecoder extends HoldingDecoder<ChatChunk> {
  end(): ChatChunk[] {
    return this.decoder.end?.() ?? []
  }
}
