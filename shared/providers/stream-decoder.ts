/** One server-sent event: `event` is its name ('' when it has none), `data` its data lines joined by \n. */
export type SseEvent = { event: string; data: string }

/**
 * Turns a provider's events into our chunks. `push` gives the chunks of one event and throws a ProviderError when the
 * event reports an error or makes no sense. `done` tells whether the provider has said the answer is complete: a stream
 * that closes before that was cut off. Of a dialect with a last event, `over` tells that it came: nothing more is waited
 * for. `part`: which of the call's requests an event answers, where it takes several.
 */
export type StreamDecoder<C> = {
  push(event: SseEvent, part?: number): C[]
  readonly done: boolean
  readonly over?: boolean
}
