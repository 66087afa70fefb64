import { isObject } from '../../../base/is-object.ts'
import type { Usage } from '../../../base/usage.ts'
import type { ProviderRow } from '../../../catalog/schema.ts'
import { isEventStream, parseEvents } from '../../../io/sse.ts'
import type { ResponsesEvent, ResponsesStatus } from '../../../kinds/responses-answer.ts'
import { ProviderError } from '../../provider-error.ts'
import { isBlank, type SseEvent, type StreamDecoder } from '../../stream-decoder.ts'
import { invalidResponse, type Json, parseEvent } from '../../toolkit/json-fields.ts'
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
  readonly #items = new EndedItems()

  constructor(provider: ProviderRow) {
    this.#provider = provider
  }

  /** Nothing follows the event that has the whole response. */
  get over(): boolean {
    return this.done
  }

  /** Throws a ProviderError when the event reports a failure or is malformed. */
  push({ data }: SseEvent): ResponsesEvent[] {
    if (this.done || isBlank(data) || data.trim() === '[DONE]') return []
    const given = typedEvent(data)
    const event = this.#items.put(given)
    switch (event.type) {
      case 'response.created':
      case 'response.in_progress':
        responseFrom(event.response)
        break
      case 'response.output_item.added':
      case 'response.output_item.done':
        if (!isObject(event.item) || typeof event.item.type !== 'string') throw invalidResponse('an item has no type')
        if (event.type === 'response.output_item.done') this.#items.add(event, data.length)
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
    this.rewrote = complete !== given
    return [complete as ResponsesEvent]
  }
}

/** The most characters of items that are kept: a last event may not be longer. */
const maxKeptCharacters = 32 * 1024 * 1024

/**
 * The items of a stream, for servers whose last event has none of them (BerriAI/litellm#32724, bytedance/deer-flow#1928,
 * QuantumNous/new-api#4362): clients take their answer from there, and so does what is stored.
 */
class EndedItems {
  readonly #items = new Map<unknown, unknown>()
  #characters = 0

  add({ output_index: index = this.#items.size, item }: Json, characters: number): void {
    this.#characters += characters
    if (this.#characters > maxKeptCharacters) this.#items.clear()
    else this.#items.set(index, item)
  }

  /** The last event with its items; any other as it is. */
  put(event: TypedEvent): TypedEvent {
    const { type, response } = event
    if (!endings.has(type) || this.#items.size === 0 || !isObject(response)) return event
    const { output } = response
    if (Array.isArray(output) ? output.length > 0 : output !== undefined && output !== null) return event
    const items = [...this.#items].sort(([a], [b]) => Number(a) - Number(b)).map(([, item]) => item)
    return { ...event, response: { ...response, output: items } }
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

type TypedEvent = Json & { type: string }

function typedEvent(data: string): TypedEvent {
  const event = parseEvent(data)
  if (isObject(event.error) && event.type === undefined) throw reportedFailure(event)
  if (typeof event.type !== 'string') throw invalidResponse('an event has no type')
  return event as TypedEvent
}
