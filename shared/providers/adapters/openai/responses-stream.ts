import { isObject } from '../../../base/is-object.ts'
import type { Usage } from '../../../base/usage.ts'
import type { ProviderRow } from '../../../catalog/schema.ts'
import { isEventStream, parseEvents } from '../../../io/sse.ts'
import type { ResponsesEvent, ResponsesStatus } from '../../../kinds/responses-answer.ts'
import { ProviderError } from '../../provider-error.ts'
import type { SseEvent, StreamDecoder } from '../../stream-decoder.ts'
import { invalidResponse, type Json } from '../../toolkit/json-fields.ts'
import { reportedFailure } from './failure.ts'
import { completeItem, completeResponse, failureOfResponse, responseFrom, usageOf } from './responses-answer.ts'
import { argumentsText } from './tool-calls.ts'

/**
 * Reads the events of a native stream, which are forwarded as they are unless clients cannot read them: checks what the gateway
 * reads and takes the usage of the last one. Events of unknown types pass.
 */
export class ResponsesEventReader implements StreamDecoder<ResponsesEvent> {
  done = false
  usage: Usage | undefined
  rewrote = false
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
    const complete = completeEvent(event)
    this.rewrote = complete !== event
    return [complete as ResponsesEvent]
  }
}

/**
 * The whole response in a stream that a server sends although none was asked for (BerriAI/litellm#34095, Wei-Shaw/sub2api#2826);
 * undefined if the body is no stream. Throws a ProviderError where the stream reports one, or broke off.
 */
export function collectResponse(text: string, provider: ProviderRow): unknown {
  if (!isEventStream(text)) return undefined
  const reader = new ResponsesEventReader(provider)
  let response: unknown
  for (const event of parseEvents(text))
    for (const one of reader.push(event)) if ('response' in one) response = one.response
  if (!reader.done) throw new ProviderError('truncated', 'the stream closed before its final event')
  return response
}

/** The events that end a response without a failure. */
const endings: ReadonlyMap<unknown, ResponsesStatus> = new Map([
  ['response.completed', 'completed'],
  ['response.incomplete', 'incomplete'],
])

/** An event as OpenAI's are, the same object if it is one. */
function completeEvent(event: Json): Json {
  const { type, item, response } = event
  if (type === 'response.function_call_arguments.done') {
    const text = argumentsText(event.arguments)
    return text === event.arguments ? event : { ...event, arguments: text }
  }
  if (type === 'response.output_item.done') {
    const complete = completeItem(item as Json)
    return complete === item ? event : { ...event, item: complete }
  }
  if (!isObject(response)) return event
  const complete = completeResponse(response, endings.get(type) ?? null)
  return complete === response ? event : { ...event, response: complete }
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
