import type { Usage } from '../../../base/usage.ts'
import type { ChatChunk, ChatDelta, FinishReason } from '../../../kinds/chat.ts'
import { newResponse } from '../../../kinds/response-object.ts'
import type { ResponsesRequest } from '../../../kinds/responses.ts'
import type { ResponsesEvent, ResponsesObject, UnnumberedResponsesEvent } from '../../../kinds/responses-answer.ts'
import { responsesUsage } from '../../../kinds/responses-usage.ts'
import { citationsOf } from '../over-chat/citations.ts'
import { textTokens } from '../over-chat/estimate.ts'
import { sealedStates } from '../over-chat/sealed-states.ts'
import type { OpenCall } from './open-call.ts'
import { OutputItems } from './output-items.ts'
import { type ClientTool, clientTools, searchedTools, type ToolIdentity } from './tool-names.ts'

export type EncoderOptions = {
  /** As the client sent it. */
  request: ResponsesRequest
  /** The id, model and creation of the response; those of the first chunk by default. */
  id?: string
  model?: string
  createdAt?: number
  /** The Unix time in seconds, called when the answer is complete. */
  now(): number
  /** The prompt tokens where the provider reports none. */
  estimatedInputTokens: number
}

/** Makes the events of a response out of the chunks of a chat answer. */
export type ResponseEncoder = Pick<ResponseEventEncoder, 'push' | 'end' | 'usage' | 'hasAnswer'>

type Begun = { response: ResponsesObject; output: OutputItems }
type ToolCallDelta = NonNullable<ChatDelta['tool_calls']>[number]

/**
 * Encodes the chunks of a chat stream as the events of a Responses stream: `push` gives the events of a chunk, `end` the
 * rest once the answer is complete. Of several choices, only the first is encoded.
 */
export class ResponseEventEncoder {
  readonly #options: EncoderOptions
  readonly #tools: ReadonlyMap<string, ClientTool>
  /** The latest tool call of each index. */
  readonly #calls = new Map<number, OpenCall>()
  /** The response as it was created, and its items; null before the first chunk. */
  #begun: Begun | null = null
  #callCount = 0
  #eventCount = 0
  #hasEnded = false
  #finish: FinishReason | null = null
  #usage: Usage | undefined
  #outputTokens = 0

  constructor(options: EncoderOptions) {
    this.#options = options
    this.#tools = clientTools(options.request)
  }

  /** What the provider has reported so far. Once the response has ended, what was shown: an estimate if it reported none. */
  get usage(): Usage | undefined {
    return this.#usage
  }

  /** Whether there is an answer that can end: a finish reason other than an error, or at least output. */
  get hasAnswer(): boolean {
    return this.#finish !== 'error' && (this.#finish !== null || this.#outputTokens > 0)
  }

  push(chunk: ChatChunk): ResponsesEvent[] {
    if (this.#hasEnded) return []
    const events: UnnumberedResponsesEvent[] = []
    const { response, output } = this.#begun ?? this.#begin(chunk)
    if (this.#eventCount === 0)
      events.push(...(['response.created', 'response.in_progress'] as const).map(type => ({ type, response })))
    if (chunk.usage) this.#usage = chunk.usage
    for (const { index, delta, logprobs, finish_reason } of chunk.choices) {
      if (index !== 0) continue
      events.push(...this.#add(output, delta, logprobs))
      if (finish_reason) this.#finish = finish_reason
    }
    return events.map(event => this.#number(event))
  }

  /** The events that end the response; none on a second call, and none before the first chunk. */
  end(): ResponsesEvent[] {
    if (this.#hasEnded || !this.#begun) return []
    this.#hasEnded = true
    this.#usage ??= this.#estimatedUsage()
    const { status, incomplete_details, error } = outcomeOf(this.#finish)
    const { response: created, output } = this.#begun
    const events = output.end(status !== 'completed')
    const response: ResponsesObject = {
      ...created,
      status,
      completed_at: status === 'completed' ? this.#options.now() : null,
      incomplete_details,
      error,
      output: output.items,
      usage: responsesUsage(this.#usage),
    }
    return [...events, { type: `response.${status}` as const, response }].map(event => this.#number(event))
  }

  #number(event: UnnumberedResponsesEvent): ResponsesEvent {
    return { ...event, sequence_number: this.#eventCount++ }
  }

  #estimatedUsage(): Usage {
    const prompt_tokens = this.#options.estimatedInputTokens
    const completion_tokens = Math.ceil(this.#outputTokens)
    return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens, estimated: true }
  }

  #begin(chunk: ChatChunk): Begun {
    const { request, model = chunk.model, createdAt = chunk.created } = this.#options
    const suffix = (this.#options.id ?? chunk.id).replace(/^(?:resp_|chatcmpl-)/, '')
    const response = newResponse({ id: this.#options.id ?? `resp_${suffix}`, model, createdAt }, request)
    const form = request.reasoning?.summary ? 'summary' : 'content'
    const output = new OutputItems(suffix, form, searchedTools(request, this.#tools))
    this.#begun = { response, output }
    return this.#begun
  }

  #add(output: OutputItems, delta: ChatDelta, logprobs: unknown): UnnumberedResponsesEvent[] {
    const { reasoning_content: reasoning, content, refusal, tool_calls: calls } = delta
    const states = sealedStates(delta)
    if (delta.annotations) output.addCitations(citationsOf(delta.annotations))
    this.#outputTokens += textTokens(`${reasoning ?? ''}${content ?? ''}${refusal ?? ''}`)
    return [
      ...output.addReasoning(reasoning ?? ''),
      ...states.filter(({ isOfText }) => isOfText).flatMap(({ envelope }) => output.addState(envelope)),
      ...output.addText(content ?? '', logprobsOf(logprobs)),
      ...output.addRefusal(refusal ?? ''),
      ...states.filter(({ isOfText }) => !isOfText).flatMap(({ envelope }) => output.addState(envelope)),
      ...(calls ?? []).flatMap(call => this.#addCall(output, call)),
    ]
  }

  /** Some providers count every call as the first one: another id begins another call. */
  #addCall(output: OutputItems, { index = 0, id, function: fn }: ToolCallDelta): UnnumberedResponsesEvent[] {
    const known = this.#calls.get(index)
    const json = fn?.arguments ?? ''
    this.#outputTokens += textTokens(`${fn?.name ?? ''}${json}`)
    if (known && (!id || id === known.callId)) {
      if (known.identity.name === '' && fn?.name) known.identity = this.#identityOf(fn.name)
      return output.addArguments(known, json)
    }
    const callId = id || `call_${this.#begun!.response.id}_${this.#callCount}`
    const call: OpenCall = { callId, identity: this.#identityOf(fn?.name ?? ''), json, pending: json, index: null }
    this.#callCount++
    this.#calls.set(index, call)
    return output.beginCall(call)
  }

  /** What the client calls a tool. A model may also invent a name. */
  #identityOf(name: string): ToolIdentity {
    return this.#tools.get(name)?.identity ?? { type: 'function', name }
  }
}

type Outcome = Pick<ResponsesObject, 'incomplete_details' | 'error'> & { status: 'completed' | 'incomplete' | 'failed' }

function outcomeOf(finish: FinishReason | null): Outcome {
  const completed: Outcome = { status: 'completed', incomplete_details: null, error: null }
  switch (finish) {
    case 'length':
      return { ...completed, status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }
    case 'content_filter':
      return { ...completed, status: 'incomplete', incomplete_details: { reason: 'content_filter' } }
    case 'error':
      return {
        ...completed,
        status: 'failed',
        error: { code: 'server_error', message: 'The provider could not complete the answer.' },
      }
    default:
      return completed
  }
}

/** The log probabilities of the text of a choice, which chat and Responses state alike. */
function logprobsOf(logprobs: unknown): unknown[] {
  const content = (logprobs as { content?: unknown } | null | undefined)?.content
  return Array.isArray(content) ? content : []
}
