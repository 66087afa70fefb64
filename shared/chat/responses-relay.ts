import type { GatewayError } from '../base/errors.ts'
import type { ShownUsage, Usage } from '../base/usage.ts'
import { failedResponse } from '../engine/responses-error.ts'
import { EventCutter, parseEvent, splitEvents } from '../io/sse.ts'
import { newResponse } from '../kinds/response-object.ts'
import type { ResponsesRequest } from '../kinds/responses.ts'
import type { ResponsesEvent, ResponsesObject, ResponsesOutputItem } from '../kinds/responses-answer.ts'
import { finishReasonOfResponse, itemTexts, responsesUsage, usageOfResponses } from '../kinds/responses-usage.ts'
import { isBilledSearch } from '../kinds/web-search.ts'
import type { Call, DirectAdapter } from '../providers/contract.ts'
import { isBlank, type StreamDecoder } from '../providers/stream-decoder.ts'
import { parseOrThrow } from './choices-relay.ts'
import { EventRelay, formatTypedEvent, TranslatedEvents } from './event-relay.ts'
import { LeadingItemDecoder } from './leading-item.ts'
import { asBytes } from './splice.ts'
import { type AnswerRelay, invalidResponse, truncatedError } from './stream-relay.ts'

/** The answer as the run knows it: its id, our name of its model, when it began (Unix time in seconds), its request. */
type ResponseInfo = {
  id: string
  model: string
  created: number
  request: ResponsesRequest
  /** Whether what an answer states is billed. */
  isBilled(stated: Usage | null, written: unknown, billed?: ShownUsage): boolean
  /** Fields that replace those of the provider's response; with them, the response has our id. */
  fields?: Partial<ResponsesObject>
  /** The item before those of the provider. */
  leading?: ResponsesOutputItem
}

/** Creates the relay of one streamed response. */
export function responsesRelayFor(
  { adapter, call }: { adapter: DirectAdapter<'responses'>; call: Call<'responses'> },
  info: ResponseInfo,
): AnswerRelay {
  const decoder = adapter.stream!(call)
  if (info.leading) return new TranslatingResponsesRelay(new LeadingItemDecoder(decoder, info.leading), info)
  return adapter.native ? new PassingResponsesRelay(decoder, info) : new TranslatingResponsesRelay(decoder, info)
}

/** The whole stream of a response that failed before anything was written. */
export function failedStream(info: ResponseInfo, failure: GatewayError): string {
  const response = { ...newResponse({ ...info, createdAt: info.created }, info.request), ...info.fields, store: false }
  return (
    formatTypedEvent({ type: 'response.created', sequence_number: 0, response }) +
    formatFailed(failedResponse(response, failure), 1)
  )
}

/**
 * Relays the events of a response. Nothing is written before the first item, until which another provider can still
 * take over; the last event is kept back until the answer is billed.
 */
abstract class ResponsesRelay extends EventRelay {
  protected readonly decoder: StreamDecoder<ResponsesEvent>
  protected readonly info: ResponseInfo
  /** The last event and its text. */
  protected ending: { event: ResponsesEvent; text: string } | null = null
  #response: ResponsesObject | null = null
  #number = 0
  /** The items whose text came in deltas. */
  readonly #told = new Set<number>()

  constructor(decoder: StreamDecoder<ResponsesEvent>, info: ResponseInfo) {
    super()
    this.decoder = decoder
    this.info = info
  }

  /** The response as the client sees it. */
  protected abstract present(response: ResponsesObject): ResponsesObject

  /** The provider's usage; null until the final one came. */
  get usage(): Usage | null {
    return this.decoder.usage ?? usageOfResponses(this.#response?.usage) ?? null
  }

  get reported(): Usage | null {
    return this.usage
  }

  response(failure?: GatewayError): ResponsesObject | null {
    if (!failure || !this.#response) return this.#response
    return failedResponse(this.#response, failure)
  }

  /** Has the last event state what is billed, where the provider's states something else. */
  restate(billed: ShownUsage): void {
    const response = this.#response
    if (!response || !this.ending || this.info.isBilled(this.usage, response.usage, billed)) return
    this.#response = { ...response, usage: responsesUsage(billed) }
    const event = { ...this.ending.event, response: this.#response } as ResponsesEvent
    this.ending = { event, text: this.encode(formatTypedEvent(event)) }
  }

  formatEnding({ response }: { response?: ResponsesObject }): string {
    const { event, text } = this.ending!
    const shown = response ? this.encode(formatTypedEvent({ ...event, response } as ResponsesEvent)) : text
    return `${shown}data: [DONE]\n\n`
  }

  formatFailure(failure: GatewayError, response = this.response(failure)): string {
    return this.encode(response ? formatFailed(response, this.#number) : failedStream(this.info, failure))
  }

  /** Text as the relay writes it. */
  protected encode(text: string): string {
    return this.encoding === 'latin1' ? asBytes(text) : text
  }

  /** Records what an event adds to the answer. */
  protected record(event: ResponsesEvent): void {
    const { sequence_number: number = this.#number } = event
    this.#number = Math.max(this.#number, number) + 1
    switch (event.type) {
      case 'response.created':
      case 'response.in_progress':
        this.#response = this.present(event.response)
        this.upstreamId = event.response.id
        this.upstreamModel = event.response.model || null
        return
      case 'response.output_item.added':
        this.hasOutput = true
        if ('name' in event.item) this.output.addText(event.item.name)
        return
      case 'response.output_item.done':
        this.hasOutput = true
        if (isBilledSearch(event.item)) this.output.webSearches++
        if (!this.#told.has(event.output_index)) this.#addItem(event.item)
        this.#told.add(event.output_index)
        return
      case 'response.completed':
      case 'response.incomplete':
        this.#end(event.response)
        return
    }
    if (!('delta' in event) || typeof event.delta !== 'string') return
    this.hasOutput = true
    this.output.addText(event.delta)
    if ('output_index' in event) this.#told.add(event.output_index)
  }

  #end(response: ResponsesObject): void {
    this.#response = this.present(response)
    this.upstreamId ??= response.id
    this.upstreamModel ??= response.model || null
    const output = response.output ?? []
    if (this.output.length === 0) for (const item of output) this.#addItem(item)
    this.finishReason = finishReasonOfResponse({ incomplete_details: response.incomplete_details, output })
    this.hasOutput = true
    this.over = true
  }

  #addItem(item: object): void {
    for (const text of itemTexts(item)) this.output.addText(text)
  }
}

/** For native dialects: forwards the bytes of events unchanged. */
class PassingResponsesRelay extends ResponsesRelay {
  readonly encoding = 'latin1'
  readonly #cutter = new EventCutter()

  feed(bytes: Buffer): void {
    this.#accept(parseOrThrow(() => this.#cutter.push(bytes.toString('latin1'))))
  }

  close(): void {
    if (this.over) return
    const rest = this.#cutter.rest().trim()
    if (rest.endsWith('}')) this.#accept(`${rest}\n\n`)
    if (!this.over) throw truncatedError()
  }

  protected present(response: ResponsesObject): ResponsesObject {
    const { id, fields } = this.info
    return fields ? { ...response, id, ...fields } : response
  }

  /** `events`: complete events as latin1 text of their bytes. */
  #accept(events: string): void {
    for (const raw of splitEvents(events)) {
      if (this.over) return
      const event = parseEvent(Buffer.from(raw, 'latin1').toString())
      const decoded = event ? this.decoder.push(event) : []
      for (const one of decoded) this.record(one)
      const text = this.info.fields || this.decoder.rewrote ? this.#format(raw, decoded[0]) : raw
      if (this.over) this.ending = { event: decoded[0]!, text }
      else if (!event || !(isBlank(event.data) || event.data.trim() === '[DONE]')) this.pass(text)
    }
  }

  /** The bytes of an event, with what differs from the received one. */
  #format(raw: string, event: ResponsesEvent | undefined): string {
    if (event && 'response' in event)
      return asBytes(formatTypedEvent({ ...event, response: this.present(event.response) }))
    return event && this.decoder.rewrote ? asBytes(formatTypedEvent(event)) : raw
  }
}

/** For translated answers: writes the events that the decoder makes. */
class TranslatingResponsesRelay extends ResponsesRelay {
  readonly encoding = 'utf8'
  readonly #events = new TranslatedEvents(this, this.decoder, 1, {
    write: event => this.#write(event),
    complete: () => {
      if (!this.over) throw this.upstreamId === null ? invalidResponse('the provider sent no answer') : truncatedError()
    },
  })

  feed(bytes: Buffer): void {
    this.#events.feed(bytes)
  }

  close(): void {
    this.#events.close()
  }

  protected present(response: ResponsesObject): ResponsesObject {
    const { id, model, fields } = this.info
    return { ...response, id, model, ...fields }
  }

  #write(event: ResponsesEvent): void {
    this.record(event)
    const text = formatTypedEvent('response' in event ? { ...event, response: this.present(event.response) } : event)
    if (this.over) this.ending = { event, text }
    else this.pass(text)
  }
}

/** The codes of failures that the request itself caused. */
const ofRequest = new Set(['invalid_prompt', 'context_length_exceeded'])

/**
 * The two events with which OpenAI's API ends a response that fails
 * (SwiftedMind/SwiftAgent, OpenAIStreamingErrorTests.swift). Many clients act on the first only, as the SDKs of OpenAI do: without it,
 * LangChain takes what has come for the whole answer (langchain-ai/langchain#39039).
 */
function formatFailed(response: ResponsesObject, number: number): string {
  const { code, message } = response.error!
  const error = { type: ofRequest.has(code) ? 'invalid_request_error' : code, code, message, param: null }
  return (
    formatTypedEvent({ type: 'error', sequence_number: number, error }) +
    formatTypedEvent({ type: 'response.failed', sequence_number: number + 1, response }) +
    'data: [DONE]\n\n'
  )
}
