import type { Usage } from '../base/usage.ts'
import type { ChatChunk } from '../kinds/chat.ts'

/** One server-sent event: `event` is its name ('' when it has none), `data` its data lines joined by \n. */
export type SseEvent = { event: string; data: string }

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
 * how often the model has searched so far, where the chunks do not show it. `end` returns the last chunks of a response
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
}

/** A decoder of the chunks of a chat answer. Those that come once its connection has closed have no choices to change. */
export abstract class ChatWrappingDecoder extends WrappingDecoder<ChatChunk, ChatChunk> {
  end(): ChatChunk[] {
    return this.decoder.end?.() ?? []
  }
}
