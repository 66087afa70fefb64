import { isObject } from '../../../base/is-object.ts'
import { createdAt, isUnixTime } from '../../../base/time.ts'
import type { ProviderRow } from '../../../catalog/schema.ts'
import { profileOf } from '../../../catalog/traits.ts'
import {
  type ChatChunk,
  type ChatCompletion,
  type ChatMessage,
  type ChatRequest,
  finishWith,
} from '../../../kinds/chat.ts'
import { type ReasoningDetail, reasoningDetail } from '../../../kinds/reasoning.ts'
import type { Call, DirectAdapter } from '../../contract.ts'
import type { NativeEvent } from '../../stream-decoder.ts'
import { imageUrls, withFetchedImages } from '../../toolkit/image-urls.ts'
import { invalidResponse, type Json } from '../../toolkit/json-fields.ts'
import { withReasoningState } from '../../toolkit/reasoning-state.ts'
import { withSessionMarks } from '../../toolkit/session-marks.ts'
import {
  extrasOf,
  finishReason,
  isOptionalText,
  mapUnlessSame,
  normaliseHead,
  normaliseUsage,
  reportsError,
  textsOf,
  usageIn,
  withTextContent,
  withWholeCharacters,
} from './answer.ts'
import { AnswerDeltas } from './answer-deltas.ts'
import { collectAnswer } from './collect-answer.ts'
import { createDecoder } from './decoder.ts'
import { reportedFailure } from './failure.ts'
import {
  beginRequest,
  limitTokens,
  post,
  renameSeed,
  requestUsage,
  setFixedFields,
  streamLongAnswer,
} from './request.ts'
import { completeCalls, completeFunction } from './tool-calls.ts'

/**
 * Servers that speak OpenAI's protocol leave members out or write them in another way: Mistral's calls have no `type`
 * and its streams no `index`, its models that reason give `content` as a list; OpenRouter, Ollama and others leave
 * out arguments or send an object; Google's endpoint gives calls the id `""` and ends them with `stop`; Groq's
 * compound models send no role. OpenAI's SDKs throw at each of these, lose the call, or end their loop.
 * `test/emulators/openai-servers.ts` has the forms and where they were seen.
 *
 * This adapter completes every answer (also `answer-deltas.ts`, `tool-calls.ts`). All dialects are served from its
 * result, so each fault is put right in one place.
 *
 * - A call has `id`, `type`, arguments that are text, `"{}"` where there are none, and an `index` in streams. What
 *   begins another call is another id at the same index, or an id or a name where there is no index. A repeated id or
 *   name is left out: clients append it. Names have no control tokens, and a call without one is `unnamed_tool`.
 * - `stop` with calls becomes `tool_calls`, except where `tool_choice` names the function: there OpenAI itself says
 *   `stop`. `tool_calls` without calls becomes `stop`. `abort` is a failure.
 * - `created` is a whole number.
 * - A whole answer to a request for a stream is one chunk.
 * - Thinking in a list becomes `reasoning_content`. Such parts are also accepted in the messages of a request.
 * - The usage is read where servers put it: `usage`, `x_groq.usage`, the choice; cached tokens at its top; tokens
 *   that only the total has are thoughts.
 * - Requests ask for `accept-encoding: identity`. A compressed answer is decoded as it arrives, within the limits of
 *   any answer.
 *
 * Not taken. A quirk per provider: the faults belong to servers and models behind a provider, and change without
 * notice. What is right passes as it is, so there is nothing to configure.
 *
 * Answers and events of OpenAI are unchanged. An id that the gateway has made up is not the server's.
 */

/** `POST /chat/completions`. */
export const chat: DirectAdapter<'chat'> = withReasoningState({
  native: true,
  remoteMedia: (body, target) => (profileOf(target).image_urls ? [] : imageUrls(body)),
  request(given) {
    const call = given.media.size > 0 ? withFetchedImages(given) : given
    const marked = call.marksCache ? withSessionMarks(call) : null
    const request = beginRequest('chat', withKnownDetails(marked ? { ...call, body: marked, raw: null } : call))
    setFixedFields(request)
    renameSeed(request)
    requestUsage(request)
    limitTokens(request)
    streamLongAnswer(request)
    const sent = post('/chat/completions', request)
    if (marked) sent.cacheMarked = true
    // An object is no stream.
    if (!call.body.stream)
      sent.collect = text => (text[0] === '{' ? undefined : collectAnswer(text, createDecoder(new ChunkReader(call))))
    return sent
  },
  answer,
  stream: call => createDecoder(new ChunkReader(call)),
})

function answer(json: unknown, { target, body }: Call<'chat'>): ChatCompletion {
  if (!isObject(json)) throw invalidResponse('it is not an object')
  if (reportsError(json)) throw reportedFailure(json)
  if (!Array.isArray(json.choices) || json.choices.length === 0) throw invalidResponse('it has no choices')
  const whole = normaliseHead(json, target.provider)
  whole.object = 'chat.completion'
  whole.choices = mapUnlessSame(json.choices, (choice, position) => choiceFrom(choice, position, isForced(body)))
  return whole as ChatCompletion
}

/** Whether a request names the one function to call. */
function isForced({ tool_choice: choice, function_call: fn }: ChatRequest): boolean {
  return isObject(fn) || (isObject(choice) && choice.type === 'function')
}

function functionNames({ tools }: ChatRequest): string[] {
  return tools?.flatMap(({ function: fn }) => (isObject(fn) && typeof fn.name === 'string' ? [fn.name] : [])) ?? []
}

type Choice = ChatCompletion['choices'][number]

function choiceFrom(choice: unknown, position: number, isForced: boolean): Choice {
  const given = isObject(choice) ? messageOf(choice) : undefined
  if (!isObject(choice) || !given) throw invalidResponse(`choice ${position} has no message`)
  const message = withWholeCharacters(withTextContent(withCalls(withReasoning(given), position)))
  const { content = null, tool_calls: toolCalls, function_call: fn } = message
  if (content !== null && typeof content !== 'string')
    throw invalidResponse(`the content of choice ${position} is not text`)
  const called = (toolCalls as unknown[] | null | undefined)?.length ? 'tool_calls' : fn ? 'function_call' : null
  // A server that omits the reason of a response with tool calls still requests them to be run.
  const reason = finishWith(finishReason(choice), called, isForced && Boolean(choice.finish_reason))
  const index = indexOf(choice, position)
  const isSame = message === choice.message && message.role === 'assistant' && message.content === content
  if (isSame && choice.index === index && choice.finish_reason === reason && !choice.usage) return choice as Choice
  const { usage: _usage, ...others } = choice
  return { ...others, index, message: { ...message, role: 'assistant', content }, finish_reason: reason } as Choice
}

/**
 * The message of a choice. Azure leaves it out where its content filter has withheld the answer (recorded in `test_chat_content_filtering`
 * of opentelemetry-instrumentation-openai 0.62.4; learn.microsoft.com/azure/ai-services/openai/concepts/content-filter).
 */
function messageOf(choice: Json): Json | undefined {
  if (isObject(choice.message)) return choice.message
  return choice.message == null && finishReason(choice) === 'content_filter' ? { content: null } : undefined
}

/** The message with complete calls. */
function withCalls(message: Json, position: number): Json {
  const { tool_calls: calls, function_call: fn } = message
  if (calls !== undefined && calls !== null && !Array.isArray(calls))
    throw invalidResponse(`the tool calls of choice ${position} are not a list`)
  const complete = calls ? completeCalls(calls) : calls
  const completeFn = isObject(fn) ? completeFunction(fn) : fn
  if (complete === calls && completeFn === fn) return message
  return { ...message, ...(calls && { tool_calls: complete }), ...(isObject(fn) && { function_call: completeFn }) }
}

/** Reads the chunks of one stream. */
class ChunkReader {
  readonly #provider: ProviderRow
  readonly #deltas: AnswerDeltas
  #head: Head | null = null

  constructor({ target, body }: Call<'chat'>) {
    this.#provider = target.provider
    this.#deltas = new AnswerDeltas(isForced(body), functionNames(body))
  }

  read(json: Json): ChatChunk | null {
    const chunk = head(json, this.#provider)
    const choices = Array.isArray(json.choices) ? json.choices : []
    // Vendor events without choices (filter results, pings) are dropped, unless they carry the usage.
    if (!Array.isArray(json.choices) && !chunk.usage) return null
    this.#head ??= { id: chunk.id, created: chunk.created, model: chunk.model }
    const pieces = choices.map((choice, position) => this.#piece(choice, position))
    return { ...chunk, object: 'chat.completion.chunk', choices: pieces }
  }

  passes({ choices, x_groq: groq, created }: NativeEvent): boolean {
    if ((isObject(groq) && groq.usage) || (created !== undefined && !isUnixTime(created))) return false
    if (!choices.every(({ index, delta, usage }) => !usage && this.#deltas.isUsual(index, delta!))) return false
    for (const { index, delta } of choices) this.#deltas.record(index, delta!)
    return true
  }

  /** What calls need that the server has left unfinished. */
  end(): ChatChunk[] {
    if (!this.#head) return []
    const choices = [...this.#deltas.unfinished()].map(piece => ({ ...piece, finish_reason: null }))
    return choices.length > 0 ? [{ ...this.#head, object: 'chat.completion.chunk', choices }] : []
  }

  #piece(choice: unknown, position: number): ChatChunk['choices'][number] {
    if (!isObject(choice)) throw invalidResponse(`choice ${position} of a chunk is not an object`)
    const { usage: _usage, ...others } = choice
    const index = indexOf(choice, position)
    const reason = choice.finish_reason ? finishReason(choice) : null
    const given = isObject(choice.delta) ? withReasoning(choice.delta) : {}
    const delta = this.#deltas.complete(index, given, reason !== null)
    return { ...others, index, delta, finish_reason: reason && this.#deltas.finishOf(index, reason) }
  }
}

type Head = Pick<ChatCompletion, 'id' | 'created' | 'model' | 'usage'>

/** The fields that responses and chunks share, and the provider's other top-level fields. */
function head(json: Json, provider: ProviderRow): Head {
  const { usage: _usage, obfuscation: _padding, provider: _route, error: _none, ...otherFields } = json
  const ownUsage = normaliseUsage(usageIn(json))
  return {
    ...otherFields,
    id: typeof json.id === 'string' ? json.id : '',
    created: createdAt(json.created),
    model: typeof json.model === 'string' ? json.model : '',
    ...(ownUsage && { usage: { ...ownUsage, ...extrasOf(json, provider) } }),
  }
}

function indexOf(choice: Json, position: number): number {
  return Number.isInteger(choice.index) ? (choice.index as number) : position
}

/**
 * OpenRouter, Groq and vLLM name the reasoning text `reasoning`; DeepSeek, xAI and this gateway `reasoning_content`.
 */
function withReasoning(message: Json): Json {
  const named = withPlainTexts(withDetails(message))
  if (typeof named.reasoning !== 'string') return named
  const { reasoning, ...otherFields } = named
  return { ...otherFields, reasoning_content: named.reasoning_content ?? reasoning }
}

/**
 * The message without thinking that is no text, which clients would show as `[object Object]`; a list has its texts. Throws a ProviderError
 * for a refusal that is none, which must not be lost.
 */
function withPlainTexts(message: Json): Json {
  if (!isOptionalText(message.refusal)) throw invalidResponse('the refusal is not text')
  if (isOptionalText(message.reasoning_content)) return message
  const { reasoning_content: thought, ...others } = message
  const { text, reasoning } = textsOf(Array.isArray(thought) ? thought : [thought])
  const thinking = reasoning + text
  return { ...others, ...(thinking && { reasoning_content: thinking }) }
}

/** The message without malformed details, which no client could read. */
function withDetails(message: Json): Json {
  const { reasoning_details: given } = message
  if (!given || (Array.isArray(given) && given.every(detail => reasoningDetail.safeParse(detail).success)))
    return message
  const { reasoning_details: _malformed, ...otherFields } = message
  return otherFields
}

/**
 * The call without reasoning details that the server may reject: those that it did not make itself, unless it has the
 * quirk `reasoning_details`. Those with state have been checked to be its own; its Responses have made them where chat takes none.
 */
function withKnownDetails(call: Call<'chat'>): Call<'chat'> {
  const { body, target } = call
  const takesDetails = target.provider.quirks?.reasoning_details === true
  const isUnknown = (message: ChatMessage) => {
    if (message.role !== 'assistant' || message.reasoning_details == null) return false
    return profileOf(target).reasoning_field === 'none' || !message.reasoning_details.some(hasState)
  }
  if (takesDetails || !body.messages.some(isUnknown)) return call
  const messages = body.messages.map(message =>
    isUnknown(message) ? { ...message, reasoning_details: undefined } : message,
  )
  return { ...call, body: { ...body, messages }, raw: null }
}

function hasState({ signature, data }: ReasoningDetail): boolean {
  return Boolean(signature || data)
}
