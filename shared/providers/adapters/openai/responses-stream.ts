import { isObject } from '../../../base/is-object.ts'
import type { Usage } from '../../../base/usage.ts'
import type { ProviderRow } from '../../../catalog/schema.ts'
import type { ResponsesEvent } from '../../../kinds/responses-answer.ts'
import type { SseEvent, StreamDecoder } from '../../stream-decoder.ts'
import { invalidResponse, type Json } from '../../toolkit/json-fields.ts'
import { reportedFailure } from './failure.ts'
import { failureOfResponse, responseFrom, usageOf } from './responses-answer.ts'

/**
 * Reads the events of a native stream, which are forwarded as they are: checks what the gateway reads and takes the
 * usage of the last one. Events of unknown types pass.
 */
export class ResponsesEventReader implements StreamDecoder<ResponsesEvent> {
  done = false
  usage: Usage | undefined
  readonly #provider: ProviderRow

  constructor(provider: ProviderRow) {
    this.#provider = provider
  }

  /** Nothing follows the event that has the whole response. */
  get over(): boolean {
    return this.done
  }

  /** Throws a ProviderError when the event reports a failure or is malformed. */
  push({ data }: SseEvent): ResponsesEvent[] {
    if (this.done || data === '' || data.trim() === '[DONE]') return []
    const event = parse(data)
    switch (event.type) {
      case 'response.created':
      case 'response.in_progress':
        responseFrom(event.response)
        break
      case 'response.output_item.added':
      case 'response.output_item.done':
        if (!isObject(event.item) || typeof event.item.type !== 'string') throw invalidResponse('an item has no type')
        break
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled': {
        const response = responseFrom(event.response)
        this.usage = usageOf(response, this.#provider)
        if (event.type === 'response.failed' || event.type === 'response.cancelled') throw failureOfResponse(response)
        this.done = true
        break
      }
      case 'error':
        throw reportedFailure(isObject(event.error) ? { error: event.error } : { error: event })
    }
    return [event as ResponsesEvent]
  }
}

function parse(data: string): Json & { type: string } {
  let event: unknown
  try {
    event = JSON.parse(data)
  } catch {
    throw invalidResponse('an event is not JSON')
  }
  if (!isObject(event)) throw invalidResponse('an event is not an object')
  if (isObject(event.error) && event.type === undefined) throw reportedFailure(event)
  if (typeof event.type !== 'string') throw invalidResponse('an event has no type')
  return event as Json & { type: string }
}
