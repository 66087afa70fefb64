import type { ProviderRow } from '../../../catalog/schema.ts'
import type { ChatChunk, ChatCompletion, ChatMessage } from '../../../kinds/chat.ts'
import { type ReasoningDetail, reasoningDetail } from '../../../kinds/reasoning.ts'
import type { Call, DirectAdapter } from '../../contract.ts'
import { withReasoningState } from '../../toolkit/with-reasoning-state.ts'
import { mapUnlessSame, normaliseHead } from './complete-response.ts'
import { createDecoder, finishReason } from './decoder.ts'
import { reportedFailure } from './failure.ts'
import { invalidResponse, isObject, type Json } from './json.ts'
import { beginRequest, limitTokens, post, renameSeed, requestUsage, setFixedFields } from './request.ts'
import { extrasOf, normaliseUsage } from './usage.ts'

/** `POST /chat/completions`. */
export const chat: DirectAdapter<'chat'> = withReasoningState({
  native: true,
  request(call) {
    const request = beginRequest('chat', withKnownDetails(call))
    setFixedFields(request)
    renameSeed(request)
    requestUsage(request)
    limitTokens(request)
    return post('/chat/completions', request)
  },
  answer,
  stream: ({ target }) => createDecoder(json => chunkFrom(json, target.provider)),
})

function answer(json: unknown, { target }: Call<'chat'>): ChatCompletion {
  if (!isObject(json)) throw invalidResponse('it is not an object')
  if (isObject(json.error)) throw reportedFailure(json)
  if (!Array.isArray(json.choices) || json.choices.length === 0) throw invalidResponse('it has no choices')
  const whole = normaliseHead(json, target.provider)
  whole.object = 'chat.completion'
  whole.choices = mapUnlessSame(json.choices, choiceFrom)
  return whole as ChatCompletion
}

type Choice = ChatCompletion['choices'][number]

function choiceFrom(choice: unknown, position: number): Choice {
  if (!isObject(choice) || !isObject(choice.message)) throw invalidResponse(`choice ${position} has no message`)
  const message = withReasoning(choice.message)
  const { content = null, tool_calls: toolCalls } = message
  if (content !== null && typeof content !== 'string')
    throw invalidResponse(`the content of choice ${position} is not text`)
  if (toolCalls !== undefined && toolCalls !== null && !Array.isArray(toolCalls)) {
    throw invalidResponse(`the tool calls of choice ${position} are not a list`)
  }
  // A server that omits the reason of a response with tool calls still requests them to be run.
  const reason = finishReason(choice.finish_reason ?? (toolCalls?.length ? 'tool_calls' : 'stop'))
  const index = indexOf(choice, position)
  const isSame = message === choice.message && message.role === 'assistant' && message.content === content
  if (isSame && choice.index === index && choice.finish_reason === reason) return choice as Choice
  return { ...choice, index, message: { ...message, role: 'assistant', content }, finish_reason: reason }
}

function chunkFrom(json: Json, provider: ProviderRow): ChatChunk | null {
  const chunk = head(json, provider)
  const choices = Array.isArray(json.choices) ? json.choices : []
  // Vendor events without choices (filter results, pings) are dropped, unless they carry the usage.
  if (!Array.isArray(json.choices) && !chunk.usage) return null
  return { ...chunk, object: 'chat.completion.chunk', choices: choices.map(pieceFrom) }
}

function pieceFrom(choice: unknown, position: number): ChatChunk['choices'][number] {
  if (!isObject(choice)) throw invalidResponse(`choice ${position} of a chunk is not an object`)
  return {
    ...choice,
    index: indexOf(choice, position),
    delta: isObject(choice.delta) ? withReasoning(choice.delta) : {},
    finish_reason: choice.finish_reason ? finishReason(choice.finish_reason) : null,
  }
}

type Head = Pick<ChatCompletion, 'id' | 'created' | 'model' | 'usage'>

/** The fields that responses and chunks share, and the provider's other top-level fields. */
function head(json: Json, provider: ProviderRow): Head {
  const { usage, obfuscation: _padding, provider: _route, ...otherFields } = json
  const ownUsage = normaliseUsage(usage)
  return {
    ...otherFields,
    id: typeof json.id === 'string' ? json.id : '',
    created: typeof json.created === 'number' ? json.created : Math.floor(Date.now() / 1000),
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
  const named = withDetails(message)
  if (typeof named.reasoning !== 'string') return named
  const { reasoning, ...otherFields } = named
  return { ...otherFields, reasoning_content: named.reasoning_content ?? reasoning }
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
 * quirk `reasoning_details`. Those with state have been checked to be its own.
 */
function withKnownDetails(call: Call<'chat'>): Call<'chat'> {
  const { body, target } = call
  const takesDetails = target.provider.quirks?.reasoning_details === true
  const isUnknown = (message: ChatMessage) =>
    message.role === 'assistant' && message.reasoning_details != null && !message.reasoning_details.some(hasState)
  if (takesDetails || !body.messages.some(isUnknown)) return call
  const messages = body.messages.map(message =>
    isUnknown(message) ? { ...message, reasoning_details: undefined } : message,
  )
  return { ...call, body: { ...body, messages }, raw: null }
}

function hasState({ signature, data }: ReasoningDetail): boolean {
  return Boolean(signature || data)
}
