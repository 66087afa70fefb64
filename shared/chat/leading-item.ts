import type { Usage } from '../base/usage.ts'
import type {
  ResponsesEvent,
  ResponsesObject,
  ResponsesOutputItem,
  UnnumberedResponsesEvent,
} from '../kinds/responses-answer.ts'
import { type SseEvent, type StreamDecoder, WrappingDecoder } from '../providers/stream-decoder.ts'

/** A response whose first item is `item`. */
export function withLeadingItem(response: ResponsesObject, item: ResponsesOutputItem): ResponsesObject {
  return { ...response, output: [item, ...(response.output ?? [])] }
}

/** Decodes the events of a response as those of one whose first item is another one: later events have higher numbers. */
export class LeadingItemDecoder extends WrappingDecoder<ResponsesEvent, ResponsesEvent> {
  readonly #item: ResponsesOutputItem
  #isTold = false
  #eventCount = 0

  constructor(decoder: StreamDecoder<ResponsesEvent>, item: ResponsesOutputItem) {
    super(decoder)
    this.#item = item
  }

  get usage(): Usage | undefined {
    return this.decoder.usage
  }

  push(event: SseEvent): ResponsesEvent[] {
    return this.decoder.push(event).flatMap(one => this.#shift(one))
  }

  end(): ResponsesEvent[] {
    return (this.decoder.end?.() ?? []).flatMap(one => this.#shift(one))
  }

  /** The item comes before the first event that is not about the beginning of the response. */
  #shift(event: ResponsesEvent): ResponsesEvent[] {
    const isBeginning = event.type === 'response.created' || event.type === 'response.in_progress'
    const told = isBeginning || this.#isTold ? [] : this.#tell()
    return [...told, this.#number(this.#later(event))]
  }

  #tell(): ResponsesEvent[] {
    this.#isTold = true
    const item = this.#item
    return (['response.output_item.added', 'response.output_item.done'] as const).map(type =>
      this.#number({ type, output_index: 0, item }),
    )
  }

  #later(event: ResponsesEvent): ResponsesEvent {
    if ('response' in event)
      return this.#isTold ? { ...event, response: withLeadingItem(event.response, this.#item) } : event
    return 'output_index' in event ? { ...event, output_index: event.output_index + 1 } : event
  }

  #number(event: UnnumberedResponsesEvent): ResponsesEvent {
    return { ...event, sequence_number: this.#eventCount++ }
  }
}
