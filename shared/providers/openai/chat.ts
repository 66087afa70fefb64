import type { ProviderRow } from '../../catalog/schema.ts'
import type { ChatChunk, ChatCompletion } from '../../kinds/chat.ts'
import type { Call, DirectAdapter } from '../contract.ts'
import { decoder, finishReason } from './decoder.ts'
import { reportedFailure } from './failure.ts'
import { invalid, isObject, type Json } from './json.ts'
import {
  askForUsage,
  draft,
  dropSampling,
  effortForTools,
  limitTokens,
  post,
  renameSeed,
  settleExtras,
} from './request.ts'
import { extrasOf, normaliseUsage } from './usage.ts'
import { mapped, wholeHead } from './whole.ts'

/** `POST /chat/completions`. */
export const chat: DirectAdapter<'chat'> = {
  native: true,
  request(call) {
    const request = draft('chat', call)
    settleExtras(request)
    renameSeed(request)
    dropSampling(request)
    effortForTools(request)
    askForUsage(request)
    limitTokens(request)
    return post('/chat/completions', request)
  },
  answer,
  stream: ({ target }) => decoder(json => chunkFrom(json, target.provider)),
}

function answer(json: unknown, { target }: Call<'chat'>): ChatCompletion {
  if (!isObject(json)) throw invalid('it is not an object')
  if (isObject(json.error)) throw reportedFailure(json)
  if (!Array.isArray(json.choices) || json.choices.length === 0) throw invalid('it has no choices')
  const whole = wholeHead(json, target.provider)
  whole.object = 'chat.completion'
  whole.choices = mapped(json.choices, choiceFrom)
  return whole as ChatCompletion
}

type Choice = ChatCompletion['choices'][number]

function choiceFrom(choice: unknown, position: number): Choice {
  if (!isObject(choice) || !isObject(choice.message)) throw invalid(`choice ${position} has no message`)
  const message = withReasoning(choice.message)
  const { content = null, tool_calls: toolCalls } = message
  if (content !== null && typeof content !== 'string') throw invalid(`the content of choice ${position} is not text`)
  if (toolCalls !== undefined && toolCalls !== null && !Array.isArray(toolCalls)) {
    throw invalid(`the tool calls of choice ${position} are not a list`)
  }
  // A server that leaves the reason out of an answer with tool calls still means them to be run.
  const reason = finishReason(choice.finish_reason ?? (toolCalls?.length ? 'tool_calls' : 'stop'))
  const index = indexOf(choice, position)
  const isSame = message === choice.message && message.role === 'assistant' && message.content === content
  if (isSame && choice.index === index && choice.finish_reason === reason) return choice as Choice
  return { ...choice, index, message: { ...message, role: 'assistant', content }, finish_reason: reason }
}

function chunkFrom(json: Json, provider: ProviderRow): ChatChunk | null {
  const chunk = head(json, provider)
  const choices = Array.isArray(json.choices) ? json.choices : []
  // Vendor events without choices (filter results, pings) say nothing to the client, unless they carry the usage.
  if (!Array.isArray(json.choices) && !chunk.usage) return null
  return { ...chunk, object: 'chat.completion.chunk', choices: choices.map(pieceFrom) }
}

function pieceFrom(choice: unknown, position: number): ChatChunk['choices'][number] {
  if (!isObject(choice)) throw invalid(`choice ${position} of a chunk is not an object`)
  return {
    ...choice,
    index: indexOf(choice, position),
    delta: isObject(choice.delta) ? withReasoning(choice.delta) : {},
    finish_reason: choice.finish_reason ? finishReason(choice.finish_reason) : null,
  }
}

type Head = Pick<ChatCompletion, 'id' | 'created' | 'model' | 'usage'>

/** The fields answers and chunks share, beside whatever else the provider said at the top level. */
function head(json: Json, provider: ProviderRow): Head {
  const { usage, obfuscation: _padding, provider: _route, ...others } = json
  const counted = normaliseUsage(usage)
  return {
    ...others,
    id: typeof json.id === 'string' ? json.id : '',
    created: typeof json.created === 'number' ? json.created : Math.floor(Date.now() / 1000),
    model: typeof json.model === 'string' ? json.model : '',
    ...(counted && { usage: { ...counted, ...extrasOf(json, provider) } }),
  }
}

function indexOf(choice: Json, position: number): number {
  return Number.isInteger(choice.index) ? (choice.index as number) : position
}

/** OpenRouter, Groq and vLLM call the reasoning text `reasoning`, DeepSeek and xAI `reasoning_content`, as we do. */
function withReasoning(message: Json): Json {
  if (typeof message.reasoning !== 'string') return message
  const { reasoning, ...others } = message
  return { ...others, reasoning_content: message.reasoning_content ?? reasoning }
}
