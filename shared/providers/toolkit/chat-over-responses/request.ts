import { asText } from '../../../base/as-text.ts'
import { isObject } from '../../../base/is-object.ts'
import type { ChatRequest } from '../../../kinds/chat.ts'
import type { ResponsesRequest } from '../../../kinds/responses.ts'
import type { ResponsesTool } from '../../../kinds/responses-tools.ts'
import { cleanChat, noticeableFieldsExcept, ownFields } from '../request-fields.ts'
import { inputOf } from './input.ts'

/**
 * "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16"
 * (https://github.com/vectorize-io/hindsight/issues/58).
 */
const minOutputTokens = 16

/** Fields that Responses have no word for, and which values of them ask for nothing. */
const chatFields: Record<string, (value: unknown) => boolean> = {
  n: value => value === 1,
  stop: value => value === '' || (Array.isArray(value) && value.length === 0),
  seed: () => false,
  logprobs: value => value === false,
  logit_bias: value => isObject(value) && Object.keys(value).length === 0,
  presence_penalty: value => value === 0,
  frequency_penalty: value => value === 0,
  prediction: () => false,
  modalities: value => Array.isArray(value) && value.every(one => one === 'text'),
  audio: () => false,
  web_search_options: value => value === false,
}

/** The field of a chat request that the Responses format has no word for; null if it can express all of it. */
export function fieldBeyondResponses(body: ChatRequest): string | null {
  const fields: Record<string, unknown> = body
  for (const name in chatFields) if (fields[name] != null && !chatFields[name]!(fields[name])) return name
  const limit = body.max_completion_tokens != null ? 'max_completion_tokens' : 'max_tokens'
  if ((body[limit] ?? minOutputTokens) < minOutputTokens) return limit
  return body.messages.some(hasSound) ? 'messages' : null
}

function hasSound(message: ChatRequest['messages'][number]): boolean {
  if (message.role === 'assistant') return message.audio != null
  const { content } = message
  return (
    message.role === 'user' && Array.isArray(content) && content.some(part => (part as Part).type === 'input_audio')
  )
}

type Part = { type: string }

/** Fields that are sent, or left out without a loss. */
const knownFields: ReadonlySet<string> = new Set([
  ...ownFields,
  ...Object.keys(chatFields),
  ...['model', 'messages', 'stream', 'stream_options', 'max_tokens', 'max_completion_tokens', 'temperature', 'top_p'],
  ...['tools', 'tool_choice', 'parallel_tool_calls', 'response_format', 'verbosity', 'reasoning', 'reasoning_effort'],
  ...['top_logprobs', 'user', 'safety_identifier', 'prompt_cache_key'],
])

/** The Responses request for a chat request that can be expressed so, and the caller's fields that it does not have. */
export function toResponsesRequest(given: ChatRequest): { body: ResponsesRequest; dropped: string[] } {
  const { body, dropped } = cleanChat(given, 'none')
  const { model, messages, tools, tool_choice: choice, stream, stream_options: options } = body
  const limit = body.max_completion_tokens ?? body.max_tokens
  const reasoning = reasoningOf(body)
  const text = textOf(body)
  const hasNames = messages.some(message => 'name' in message && message.name && message.role !== 'function')
  return {
    body: {
      model,
      input: inputOf(messages),
      ...(limit != null && { max_output_tokens: limit }),
      ...(body.temperature != null && { temperature: body.temperature }),
      ...(body.top_p != null && { top_p: body.top_p }),
      ...(stream && { stream }),
      ...(stream && typeof options?.include_obfuscation === 'boolean' && { stream_options: obfuscation(options) }),
      ...(tools && { tools: tools.map(toolOf) }),
      ...(choice != null && { tool_choice: choiceOf(choice) }),
      ...(body.parallel_tool_calls != null && { parallel_tool_calls: body.parallel_tool_calls }),
      ...(reasoning && { reasoning }),
      ...(text && { text }),
      ...idsOf(body),
    },
    dropped: [...dropped, ...noticeableFieldsExcept(body, knownFields), ...(hasNames ? ['messages.name'] : [])],
  }
}

function obfuscation({ include_obfuscation }: Record<string, unknown>): { include_obfuscation: boolean } {
  return { include_obfuscation: include_obfuscation === true }
}

/** The ids of the caller's, which have the same names. */
function idsOf(body: ChatRequest): Partial<ResponsesRequest> {
  const fields: Record<string, unknown> = body
  const given = ['user', 'safety_identifier', 'prompt_cache_key'].filter(name => fields[name] != null)
  return Object.fromEntries(given.map(name => [name, fields[name]]))
}

/** `reasoning` is OpenRouter's field, whose summary has this name in Responses, too. */
function reasoningOf(body: ChatRequest): ResponsesRequest['reasoning'] {
  const { reasoning, reasoning_effort: effort } = body
  const summary = isObject(reasoning) ? reasoning.summary : undefined
  if (effort == null && typeof summary !== 'string') return undefined
  return { ...(effort != null && { effort }), ...(typeof summary === 'string' && { summary }) }
}

function textOf(body: ChatRequest): ResponsesRequest['text'] {
  const { response_format: given } = body
  const { verbosity } = body as { verbosity?: unknown }
  const format = given && { type: given.type, ...(given.type === 'json_schema' && given.json_schema) }
  if (!format && typeof verbosity !== 'string') return undefined
  return { ...(format && { format }), ...(typeof verbosity === 'string' && { verbosity }) }
}

type ChatTool = NonNullable<ChatRequest['tools']>[number]

function toolOf(tool: ChatTool): ResponsesTool {
  if (tool.type === 'custom') {
    const { name, description, format } = tool.custom
    const sent = customFormatOf(format)
    return {
      type: 'custom',
      name,
      ...(typeof description === 'string' && { description }),
      ...(sent && { format: sent }),
    }
  }
  const { name, description, parameters, strict } = tool.function
  // Where it is absent, Responses make the schema strict, and chat does not (https://github.com/langchain-ai/langchain/pull/39309).
  return {
    type: 'function',
    name,
    ...(description && { description }),
    parameters: parameters ?? { type: 'object', properties: {} },
    strict: strict === true,
  }
}

/** Chat nests a grammar under `grammar`; Responses puts its fields beside `type`. */
function customFormatOf(format: unknown): { type: string } | null {
  if (!isObject(format) || typeof format.type !== 'string') return null
  return { type: format.type, ...(isObject(format.grammar) && format.grammar) }
}

type Choice = NonNullable<ChatRequest['tool_choice']>

function choiceOf(choice: Choice): ResponsesRequest['tool_choice'] {
  if (!isObject(choice)) return choice
  if (choice.type !== 'allowed_tools') return referenceOf(choice)
  const { mode, tools }: Record<string, unknown> = isObject(choice.allowed_tools) ? choice.allowed_tools : choice
  const allowed = Array.isArray(tools) ? tools.filter(isObject) : []
  return { type: 'allowed_tools', mode: asText(mode), tools: allowed.map(referenceOf) }
}

/** `{type, function: {name}}` as `{type, name}`. */
function referenceOf(reference: Record<string, unknown>): { type: string; name: string } {
  const type = asText(reference.type)
  const named = reference[type]
  return { type, name: asText(isObject(named) ? named.name : reference.name) }
}

/** The names in chat of Responses fields that have other ones. */
const chatNames: ReadonlyMap<string, string> = new Map([
  ['input', 'messages'],
  ['reasoning', 'reasoning_effort'],
  ['max_output_tokens', 'max_completion_tokens'],
  ['text', 'response_format'],
])

/** The field of a chat request for one of the Responses request, such as `input[3].content`. */
export function nameInChat(path: string): string {
  return path === 'text.verbosity' ? 'verbosity' : (chatNames.get(path.split(/[.[]/, 1)[0]!) ?? path)
}
