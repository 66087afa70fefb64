import { asText } from '../../../base/as-text.ts'
import { isObject } from '../../../base/is-object.ts'
import type { ChatMessage, ChatRequest } from '../../../kinds/chat.ts'
import { usualWebSearches } from '../../../kinds/web-search.ts'
import type { Call } from '../../contract.ts'
import { assertOneTextAnswer, unsupported } from '../../toolkit/field-refusals.ts'
import { cleanChat, noticeableFieldsExcept, ownFields } from '../../toolkit/request-fields.ts'

/** Fields of Sonar's chat completions for its searches, which are members of the tool `web_search` now. */
const filterNames = [
  'search_domain_filter',
  'search_recency_filter',
  'search_after_date_filter',
  'search_before_date_filter',
  'last_updated_after_filter',
  'last_updated_before_filter',
]
const placeNames = ['country', 'region', 'city', 'latitude', 'longitude']

/** The supported fields. The API refuses every other one: `unknown field "stop"`. */
const supportedFields: ReadonlySet<string> = new Set([
  ...ownFields,
  ...['model', 'messages', 'max_tokens', 'max_completion_tokens', 'temperature', 'top_p', 'stream', 'stream_options'],
  ...['n', 'logprobs', 'tools', 'tool_choice', 'parallel_tool_calls', 'response_format', 'modalities'],
  ...['web_search_options', 'disable_search', 'num_search_results', 'language_preference', ...filterNames],
])

/** "custom function names colliding with built-in tool names are rejected with a 400" (perplexityai/api-platform-developers, integration-styles.md). */
export const builtInTools: ReadonlySet<string> = new Set([
  ...['web_search', 'search_web', 'people_search', 'search_people', 'fetch_url', 'finance_search', 'sandbox'],
])

type AgentRequest = { body: Record<string, unknown>; dropped: string[] }

/**
 * The body for the Agent API, and the caller's fields that it has no word for. It searches the web as Sonar did: in every request,
 * unless `disable_search` is set or the caller forces one of its own tools. Throws a GatewayError 400 naming what cannot be expressed.
 */
export function agentRequest({ body: given, target, maxTokens }: Call<'chat'>): AgentRequest {
  const { body, dropped } = cleanChat(given, 'none')
  assertOneTextAnswer(body)
  const fields: Record<string, unknown> = body
  const { tools, tool_choice } = toolsOf(body)
  const limit = maxTokens ?? body.max_completion_tokens ?? body.max_tokens ?? undefined
  const searches = target.deployment.traits?.web_searches ?? usualWebSearches
  const store = target.provider.quirks?.store
  return {
    body: {
      model: target.deployment.upstream_model,
      input: body.messages.flatMap((message, index) => inputItems(message, `messages.${index}`)),
      ...(limit !== undefined && { max_output_tokens: limit }),
      ...(body.temperature != null && { temperature: body.temperature }),
      ...(body.top_p != null && { top_p: body.top_p }),
      ...(body.stream && { stream: true }),
      ...(body.response_format?.type === 'json_schema' && { response_format: body.response_format }),
      ...(typeof fields.language_preference === 'string' && { language_preference: fields.language_preference }),
      ...(tools.length > 0 && { tools, tool_choice, max_tool_calls: searches }),
      ...(tools.length > 0 && body.parallel_tool_calls === false && { parallel_tool_calls: false }),
      ...(store !== undefined && { store }),
    },
    dropped: [...dropped, ...noticeableFieldsExcept(body, supportedFields)],
  }
}

type Choice = 'auto' | 'required' | { type: 'web_search' } | { name: string }

/** The tools of a request and which of them is called: the search, where the model has no other. */
function toolsOf(body: ChatRequest): { tools: object[]; tool_choice: Choice } {
  const { tool_choice: choice } = body
  const own = choice === 'none' ? [] : ownTools(body)
  const isForced = own.length > 0 && (choice === 'required' || isObject(choice))
  const search = (body as Record<string, unknown>).disable_search === true || isForced ? [] : [searchTool(body)]
  const tools = [...search, ...own]
  if (own.length === 0) return { tools, tool_choice: { type: 'web_search' } }
  if (!isForced) return { tools, tool_choice: 'auto' }
  if (choice === 'required') return { tools, tool_choice: 'required' }
  const name = isObject(choice) && isObject(choice.function) ? asText(choice.function.name) : null
  if (name === null) throw unsupported('tool_choice.type', 'only a function can be chosen')
  return { tools, tool_choice: { name } }
}

function ownTools({ tools = [] }: ChatRequest): object[] {
  return tools.map((tool, index) => {
    if (tool.type !== 'function') throw unsupported(`tools.${index}.type`, 'only function tools can be used')
    const { name, description, parameters, strict } = tool.function
    if (builtInTools.has(name))
      throw unsupported(`tools.${index}.function.name`, `Perplexity has a tool of its own named "${name}"`)
    return {
      type: 'function',
      name,
      ...(description && { description }),
      parameters: parameters ?? { type: 'object', properties: {} },
      ...(strict != null && { strict }),
    }
  })
}

/** The tool that searches, with what Sonar's chat completions had at the top level and in `web_search_options`. */
function searchTool(body: ChatRequest): object {
  const fields: Record<string, unknown> = body
  const { search_context_size: size, user_location: location } = body.web_search_options || {}
  // OpenAI has the place in `approximate`, Sonar had it here.
  const place = pick(isObject(location?.approximate) ? location.approximate : (location ?? {}), placeNames)
  const filters = pick(fields, filterNames)
  return {
    type: 'web_search',
    ...(size && { search_context_size: size }),
    ...(Object.keys(place).length > 0 && { user_location: place }),
    ...(fields.num_search_results != null && { max_results: fields.num_search_results }),
    ...(Object.keys(filters).length > 0 && { filters }),
  }
}

function pick(fields: Record<string, unknown>, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(names.flatMap(name => (fields[name] == null ? [] : [[name, fields[name]]])))
}

/** The items of a message. Calls are items of their own, as in OpenAI's Responses. */
function inputItems(message: ChatMessage, param: string): object[] {
  switch (message.role) {
    case 'system':
    case 'developer':
      return textItems('system', textOf(message.content))
    case 'user':
      return userItems(message.content, `${param}.content`)
    case 'assistant':
      return answerItems(message, param)
    case 'tool':
      return [{ type: 'function_call_output', call_id: message.tool_call_id, output: textOf(message.content) }]
    case 'function':
      throw unsupported(`${param}.role`, 'use the role "tool" with a tool_call_id')
  }
}

function textItems(role: 'system' | 'user' | 'assistant', content: string): object[] {
  return content === '' ? [] : [{ type: 'message', role, content }]
}

function answerItems(message: Extract<ChatMessage, { role: 'assistant' }>, param: string): object[] {
  const content = message.content || message.refusal || ''
  const text =
    typeof content === 'string'
      ? content
      : content.map(part => (part.type === 'text' ? part.text : part.refusal)).join('')
  const calls = (message.tool_calls ?? []).map((call, index) => {
    if (call.type !== 'function')
      throw unsupported(`${param}.tool_calls.${index}.type`, 'only function tools can be called')
    return { type: 'function_call', call_id: call.id, name: call.function.name, arguments: call.function.arguments }
  })
  return [...textItems('assistant', text), ...calls]
}

type Texts = string | { text: string }[]

function textOf(content: Texts): string {
  return typeof content === 'string' ? content : content.map(part => part.text).join('\n')
}

type UserContent = Extract<ChatMessage, { role: 'user' }>['content']

function userItems(content: UserContent, param: string): object[] {
  if (typeof content === 'string') return textItems('user', content)
  const parts = content.map((part, index) => {
    if (part.type === 'text') return { type: 'input_text', text: part.text }
    if (part.type === 'image_url') return { type: 'input_image', image_url: part.image_url.url }
    throw unsupported(`${param}.${index}.type`, 'this model takes texts and images only')
  })
  const texts = parts.flatMap(part => part.text ?? [])
  if (texts.length === parts.length) return textItems('user', texts.join('\n'))
  return [{ type: 'message', role: 'user', content: parts }]
}
