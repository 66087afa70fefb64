import { checkRequest } from './anthropic-rules.ts'
import { Emulator, events, json, type Recorded, type Reply } from './emulator.ts'
import { PromptCache } from './prompt-cache.ts'

// biome-ignore lint/suspicious/noExplicitAny: request bodies come in every shape
type Any = any
type Event = { type: string } & Record<string, Any>
type Usage = Record<string, number | null | object>
export type Message = {
  id: string
  type: 'message'
  role: 'assistant'
  model: string
  content: Any[]
  stop_reason: string
  stop_sequence: string | null
  stop_details: object | null
  usage: Usage
}

const cities = ['Oslo', 'Rome', 'Paris', 'Berlin', 'Tokyo', 'London']
const accountHeaders = { 'request-id': 'req_emulated', 'anthropic-organization-id': 'org_emulated' }

/**
 * An Anthropic Messages API: checks requests as the real one does, echoes the last user message, calls a tool when the
 * user mentions the weather, and follows JSON schemas.
 */
export function startAnthropicEmulator(port = 0, now?: () => number): Promise<Emulator> {
  return Emulator.start(anthropicReply(now), port)
}

/** What the account of a Messages API holds: its prompt cache, and the messages of threads by the id of the last one. */
type Account = { cache: PromptCache; threads: Map<string, Any[]> }

/** What a Messages API answers, for all requests of one account. `now`: the time by which cached prompts expire. */
export function anthropicReply(now: () => number = Date.now): Reply {
  const account: Account = { cache: new PromptCache(now), threads: new Map() }
  return (request, response) => replyTo(request, account)(request, response)
}

function replyTo(request: Recorded, { cache, threads }: Account): Reply {
  if (request.path !== '/v1/messages' || request.method !== 'POST') return failed(404, 'not_found_error', 'Not found')
  const bearer = /^Bearer (\S+)$/.exec(request.headers.authorization ?? '')?.[1]
  if (!request.headers['x-api-key'] && !bearer)
    return failed(401, 'authentication_error', 'x-api-key header is required')
  const version = String(request.headers['anthropic-version'] ?? '')
  const { body } = request
  const betas = String(request.headers['anthropic-beta'] ?? '')
  const held = heldMessages(body, betas, threads)
  if (!held) {
    const details = { error_code: 'thread_not_found' }
    return failed(404, 'not_found_error', 'No usable thread state was found', { details })
  }
  const whole = held.length > 0 ? { ...body, messages: [...held, ...body.messages] } : body
  const fault = checkRequest(whole, version, betas)
  if (fault) return failed(400, 'invalid_request_error', fault)
  const message = messageFor(whole, cache.usageOf(whole, String(request.headers['x-api-key'] ?? bearer)))
  if (!body.thread) return messageReply(message)
  const id = `msg_thread${threads.size}`
  threads.set(id, [...whole.messages, { role: 'assistant', content: message.content }])
  return messageReply({ ...message, id })
}

/**
 * The messages that a thread of the account has, which a request continues; null if there is none. Any request of the
 * account can continue any of its threads (@anthropic-ai/sdk: BetaThreadContinueParams, ThreadNotFoundErrorDetails).
 */
function heldMessages(body: Any, betas: string, threads: Account['threads']): Any[] | null {
  const { type, previous_message_id: id } = body?.thread ?? {}
  return type === 'continue' && /message-threads-/.test(betas) ? (threads.get(id) ?? null) : []
}

/** Answers with this message, whole or streamed as the request asks. Fields left out come from the request. */
export function messageReply(message: Partial<Message>): Reply {
  return (request, response) => {
    const whole: Message = { ...emptyMessage(request.body?.model), ...message }
    const reply = request.body?.stream
      ? events(messageEvents(whole).map(sse), { headers: accountHeaders })
      : json(200, whole, accountHeaders)
    return reply(request, response)
  }
}

function emptyMessage(model: string): Message {
  const usage = { input_tokens: 10, output_tokens: 5, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
  const empty = { content: [], stop_reason: 'end_turn', stop_sequence: null, stop_details: null }
  return { id: 'msg_emulated', type: 'message', role: 'assistant', model, ...empty, usage }
}

/** An error answer in the API's shape. */
export function failed(
  status: number,
  type: string,
  message: string,
  extra: { details?: object; retryAfter?: string } = {},
): Reply {
  const { details, retryAfter } = extra
  const body = { type: 'error', error: { type, message, ...(details && { details }) }, request_id: 'req_emulated' }
  return json(status, body, { ...accountHeaders, ...(retryAfter && { 'retry-after': retryAfter }) })
}

/** 529: the API has no room. */
export const overloaded: Reply = failed(529, 'overloaded_error', 'Overloaded')

/** 429 with `retry-after` in seconds. */
export function rateLimited(retryAfter: number): Reply {
  const message =
    'This request would exceed the rate limit for your organization (0b6f1a52-5d0c-4a8e-9a59-6c2f0f3f2a11).'
  return failed(429, 'rate_limit_error', message, { retryAfter: String(retryAfter) })
}

/** A message whose model refused. */
export const refusal: Reply = messageReply({
  content: [],
  stop_reason: 'refusal',
  stop_details: { type: 'refusal', category: 'cyber', explanation: 'This cannot be answered.' },
})

/** A tool call without arguments: its stream has no input delta. */
export const toolWithoutInput: Reply = messageReply({
  content: [{ type: 'tool_use', id: 'toolu_empty', name: 'now', input: {} }],
  stop_reason: 'tool_use',
})

const half: Partial<Message> = { content: [{ type: 'text', text: 'Half an answer' }] }

/** A stream that begins well and then reports an error of this type. */
export function errorMidStream(type = 'overloaded_error', message = 'Overloaded'): Reply {
  return brokenStream('close', { type: 'error', error: { type, message } })
}

/** A stream whose connection breaks after a part of the text. */
export const cutMidStream: Reply = brokenStream('cut')

function brokenStream(end: 'close' | 'cut', ...last: Event[]): Reply {
  return (request, response) => {
    const begun = messageEvents({ ...emptyMessage(request.body?.model), ...half }).slice(0, 4)
    return events([...begun, ...last].map(sse), { end })(request, response)
  }
}

/** One event as text; its name is its type. */
export function sse(event: { type: string }): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
}

/** The events that stream a message, its texts and tool inputs cut by `split`. */
export function messageEvents(message: Message, split: (text: string) => string[] = inFives): Event[] {
  const { output_tokens, output_tokens_details = null, ...inputUsage } = message.usage
  const begun = {
    ...message,
    content: [],
    stop_reason: null,
    stop_details: null,
    usage: { ...inputUsage, output_tokens: 1 },
  }
  const list: Event[] = [{ type: 'message_start', message: begun }]
  for (const [index, block] of message.content.entries()) {
    list.push({ type: 'content_block_start', index, content_block: emptied(block) })
    if (index === 0) list.push({ type: 'ping' })
    for (const delta of deltas(block, split)) list.push({ type: 'content_block_delta', index, delta })
    list.push({ type: 'content_block_stop', index })
  }
  const { stop_reason, stop_sequence, stop_details } = message
  const usage = { input_tokens: null, output_tokens, output_tokens_details }
  list.push({ type: 'message_delta', delta: { stop_reason, stop_sequence, stop_details }, usage })
  list.push({ type: 'message_stop' })
  return list
}

function emptied(block: Any): Any {
  if (block.type === 'text') return { ...block, text: '' }
  if (block.type === 'redacted_thinking') return block
  return block.type === 'thinking' ? { ...block, thinking: '', signature: '' } : { ...block, input: {} }
}

function deltas(block: Any, split: (text: string) => string[]): Any[] {
  if (block.type === 'text') return split(block.text).map(text => ({ type: 'text_delta', text }))
  if (block.type === 'thinking') {
    const thoughts = split(block.thinking).map(thinking => ({ type: 'thinking_delta', thinking }))
    return [...thoughts, { type: 'signature_delta', signature: block.signature }]
  }
  if (block.type === 'redacted_thinking') return []
  const input = JSON.stringify(block.input)
  if (input === '{}') return []
  return ['', ...split(input)].map(partial_json => ({ type: 'input_json_delta', partial_json }))
}

function inFives(text: string): string[] {
  return text.match(/.{1,5}/gsu) ?? []
}

function messageFor(body: Any, inputUsage: Usage): Message {
  const last = blocksOf(body.messages.at(-1).content)
  const text = last.flatMap(textsOf).join(' ')
  const calls = toolCalls(body, text, last)
  const thinking = body.thinking &&
    body.thinking.type !== 'disabled' && { type: 'thinking', thinking: 'Let me think.', signature: 'c2lnbmVk' }
  const answer = calls.length > 0 ? { text: '', stop_reason: 'tool_use', stop_sequence: null } : spoken(body, text)
  const content = [
    ...(thinking ? [thinking] : []),
    ...(answer.text ? [{ type: 'text', text: answer.text }] : []),
    ...calls,
  ]
  const thinking_tokens = thinking ? tokens(thinking.thinking) : 0
  const usage = {
    ...inputUsage,
    output_tokens: tokens(answer.text) + tokensOf(calls) + thinking_tokens,
  }
  return {
    ...emptyMessage(body.model),
    content,
    stop_reason: answer.stop_reason,
    stop_sequence: answer.stop_sequence,
    usage: { ...usage, ...(thinking_tokens > 0 && { output_tokens_details: { thinking_tokens } }) },
  }
}

/** The echo, or an instance of the asked schema, ended by a stop sequence or the output ceiling. */
function spoken(body: Any, text: string): { text: string; stop_reason: string; stop_sequence: string | null } {
  const schema = (body.output_config?.format ?? body.output_format)?.schema
  const whole = schema ? JSON.stringify(instanceOf(schema)) : `Echo: ${text}`
  const hits = ((body.stop_sequences ?? []) as string[]).filter(stop => whole.includes(stop))
  const stop = hits.sort((a, b) => whole.indexOf(a) - whole.indexOf(b))[0]
  const kept = stop === undefined ? whole : whole.slice(0, whole.indexOf(stop))
  if (tokens(kept) > body.max_tokens) {
    return { text: kept.slice(0, body.max_tokens * 4), stop_reason: 'max_tokens', stop_sequence: null }
  }
  return { text: kept, stop_reason: stop === undefined ? 'end_turn' : 'stop_sequence', stop_sequence: stop ?? null }
}

/** One call per city in the text when tools are offered; a tool that takes nothing is called with `{}`. */
function toolCalls(body: Any, text: string, last: Any[]): Any[] {
  const choice = body.tool_choice ?? { type: 'auto' }
  const forced = choice.type === 'any' || choice.type === 'tool'
  const answered = last.some(block => block.type === 'tool_result')
  if (!body.tools || choice.type === 'none' || !(forced || (/weather/i.test(text) && !answered))) return []
  const tool = body.tools.find((one: Any) => one.name === choice.name) ?? body.tools[0]
  const field = Object.keys(tool.input_schema.properties ?? {})[0]
  const named = cities.filter(city => text.includes(city))
  const wanted = (named.length > 0 ? named : ['Oslo']).slice(
    0,
    choice.disable_parallel_tool_use || !field ? 1 : undefined,
  )
  return wanted.map((city, index) => ({
    type: 'tool_use',
    id: `toolu_${index + 1}`,
    name: tool.name,
    input: field ? { [field]: city } : {},
  }))
}

function blocksOf(content: Any): Any[] {
  if (content === undefined) return []
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content
}

function textsOf(block: Any): string[] {
  if (block.type === 'text') return [block.text]
  return block.type === 'tool_result' ? blocksOf(block.content).flatMap(textsOf) : [`[${block.type}]`]
}

function tokens(text: string): number {
  return Math.ceil(text.length / 4)
}

function tokensOf(blocks: Any[]): number {
  return blocks.reduce((sum, block) => sum + tokens(block.text ?? JSON.stringify(block)), 0)
}

function instanceOf(schema: Any, depth = 0): Any {
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return schema.enum[0]
  if (schema.anyOf) return instanceOf(schema.anyOf[0], depth + 1)
  if (schema.type === 'array') return depth > 8 ? [] : [instanceOf(schema.items ?? {}, depth + 1)]
  if (schema.type === 'object') {
    const fields = depth > 8 ? [] : Object.entries(schema.properties ?? {})
    return Object.fromEntries(fields.map(([name, field]) => [name, instanceOf(field, depth + 1)]))
  }
  return { string: 'text', integer: 1, number: 1, boolean: true, null: null }[schema.type as string] ?? null
}
