import type { Usage } from '../../../base/usage.ts'
import type { ChatChunk } from '../../../kinds/chat.ts'
import { HoldingDecoder, type SseEvent, type StreamDecoder } from '../../stream-decoder.ts'

/** Makes the events of another format out of the chunks of a chat answer. */
type Encoder<Event> = {
  /** The usage that is billed; undefined until it is known. */
  readonly usage: Usage | undefined
  /** Whether a chunk has come. */
  readonly hasAnswer: boolean
  push(chunk: ChatChunk): Event[]
  end(): Event[]
}

/** Decodes the events of a chat provider to those that an encoder makes. */
export class OverChatDecoder<Event> extends HoldingDecoder<Event> {
  readonly #encoder: Encoder<Event>

  constructor(chat: StreamDecoder<ChatChunk>, encoder: Encoder<Event>) {
    super(chat)
    this.#encoder = encoder
  }

  get usage(): Usage | undefined {
    return this.#encoder.usage
  }

  push(event: SseEvent, part?: number): Event[] {
    return this.receive(event, part).flatMap(chunk => this.#encoder.push(chunk))
  }

  /**
   * The events that end the answer: a chat stream may report its usage after the last choice has finished. None where
   * the stream was truncated, or the provider reported an error.
   */
  end(): Event[] {
    if (!this.decoder.done || !this.#encoder.hasAnswer) return []
    const last = (this.decoder.end?.() ?? []).flatMap(chunk => this.#encoder.push(chunk))
    return [...last, ...this.#encoder.end()]
  }
}
