import type { Usage } from '../../../base/usage.ts'
import type { MessageEvent } from '../../../kinds/messages.ts'
import type { SseEvent, StreamDecoder } from '../../stream-decoder.ts'
import { objectIn, parseEvent, textIn } from '../../toolkit/json-fields.ts'
import { Counters } from './answer.ts'
import { errorFrom } from './failure.ts'
import { ToolReadings } from './tool-readings.ts'

/**
 * Reads the events of a native stream, which are forwarded as they are: checks what the gateway reads and counts the
 * tokens. Events of unknown types pass.
 */
export class MessageEventReader implements StreamDecoder<MessageEvent> {
  done = false
  readonly #counters: Counters
  readonly #readings = new ToolReadings()

  /** `asked1hCache`: see `Counters`. */
  constructor(asked1hCache: boolean) {
    this.#counters = new Counters(asked1hCache)
  }

  /** `message_stop` is the final event. */
  get over(): boolean {
    return this.done
  }

  get usage(): Usage | undefined {
    return this.#counters.usage
  }

  get promptUsage(): Usage | undefined {
    const first = this.#counters.promptUsage
    return first && this.#readings.addTo(first)
  }

  /** Throws a ProviderError when the event reports an error or is malformed. */
  push({ data }: SseEvent): MessageEvent[] {
    if (this.done || data === '') return []
    const event = parseEvent(data)
    switch (textIn(event.type, 'type')) {
      case 'message_start': {
        const message = objectIn(event.message, 'message')
        textIn(message.id, 'id')
        if (message.usage) {
          // No output exists yet: this count must not be taken for that of the whole answer.
          const { output_tokens: _none, ...input } = objectIn(message.usage, 'usage')
          this.#counters.report(input)
        }
        break
      }
      case 'content_block_start':
        this.#readings.add(String(objectIn(event.content_block, 'content_block').type), data.length)
        break
      case 'content_block_delta':
        objectIn(event.delta, 'delta')
        break
      case 'message_delta':
        objectIn(event.delta, 'delta')
        this.#counters.report(event.usage)
        break
      case 'message_stop':
        this.done = true
        break
      case 'error':
        throw errorFrom(event.error)
    }
    return [event as MessageEvent]
  }
}
