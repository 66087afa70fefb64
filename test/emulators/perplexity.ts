import { setImmediate as turn } from 'node:timers/promises'
import { fakeInstance } from '../../shared/providers/sandbox/chat/schema-faker.ts'
import { Emulator, json, type Recorded, type Reply } from './emulator.ts'

// biome-ignore lint/suspicious/noExplicitAny: request bodies of every shape
type Any = any

/**
 * Perplexity's Agent API on a local port: refuses what it refuses, searches the web once where a search is offered, echoes the last text of
 * the user with a mark of its second source, and calls a function when the user mentions the weather. Rules and forms: the references of
 * perplexityai/api-platform-developers (`migrate-sonar-to-agent-api`), the types of @perplexity-ai/perplexity_ai 0.38, and the recorded
 * answers of vercel/ai (`agent-web-search.json`, `agent-web-search.chunks.txt`).
 */
export function startPerplexity(): Promise<Emulator> {
  return Emulator.start((request, response) => replyTo(request)(request, response))
}

function replyTo(request: Recorded): Reply {
  const { method, path, body, headers } = request
  if (method === 'GET' && path === '/v1/models')
    return json(200, { object: 'list', data: [{ id: 'perplexity/sonar' }] })
  const [, key] = /^Bearer (\S+)$/.exec(headers.authorization ?? '') ?? []
  if (!key || key === 'invalid') return refused(401, 'forbidden', 'Invalid API key provided.')
  if (method === 'POST' && path.endsWith('/chat/completions'))
    return refused(410, 'gone', 'Sonar is now the Agent API: https://docs.perplexity.ai/docs/agent-api/quickstart')
  if (method !== 'POST' || !['/v1/agent', '/v1/responses'].includes(path)) return refused(404, 'not_found', 'Not found')
  return faultIn(body) ?? agentReply()
}

function refused(code: number, type: string, message: string, param?: string): Reply {
  return json(code, { error: { message, type, code, ...(param && { param }) } })
}

const fields: Record<string, readonly string[]> = {
  request: [
    ...['model', 'models', 'preset', 'input', 'instructions', 'tools', 'tool_choice', 'parallel_tool_calls', 'stream'],
    ...['stream_options', 'max_output_tokens', 'max_steps', 'max_tool_calls', 'temperature', 'top_p', 'reasoning'],
    ...[
      'response_format',
      'language_preference',
      'previous_response_id',
      'background',
      'metadata',
      'store',
      'truncation',
    ],
  ],
  web_search: [
    ...['type', 'filters', 'search_context_size', 'user_location', 'max_results', 'max_tokens', 'max_tokens_per_page'],
  ],
  function: ['type', 'name', 'description', 'parameters', 'strict'],
  filters: [
    ...['search_domain_filter', 'search_recency_filter', 'search_after_date_filter', 'search_before_date_filter'],
    ...['last_updated_after_filter', 'last_updated_before_filter'],
  ],
  message: ['type', 'role', 'content'],
  function_call: ['type', 'call_id', 'name', 'arguments', 'thought_signature'],
  function_call_output: ['type', 'call_id', 'name', 'output', 'thought_signature', 'id', 'status'],
  user_location: ['latitude', 'longitude', 'country', 'region', 'city'],
}
const reservedNames = [
  'web_search',
  'search_web',
  'people_search',
  'search_people',
  'fetch_url',
  'finance_search',
  'sandbox',
]

function unknownField(value: Any, known: string): Reply | null {
  const name = Object.keys(value ?? {}).find(field => !fields[known]!.includes(field))
  return name ? refused(400, 'invalid_request', `invalid request body: json: unknown field "${name}"`, name) : null
}

function faultIn(body: Any): Reply | null {
  const invalid = (message: string, param?: string) => refused(400, 'invalid_request', message, param)
  if (body === null || typeof body !== 'object') return invalid('invalid request body')
  const unknown = unknownField(body, 'request')
  if (unknown) return unknown
  if (body.model !== 'perplexity/sonar') return refused(400, 'invalid_model', `Invalid model '${body.model}'`, 'model')
  if (!(typeof body.input === 'string' || (Array.isArray(body.input) && body.input.length > 0)))
    return invalid('input is required', 'input')
  for (const item of Array.isArray(body.input) ? body.input : []) {
    const fault = fields[item.type] ? unknownField(item, item.type) : invalid('unknown input item', 'input')
    if (fault) return fault
  }
  for (const tool of body.tools ?? []) {
    if (!['web_search', 'function'].includes(tool.type)) return invalid(`unknown tool ${tool.type}`, 'tools')
    const fault =
      unknownField(tool, tool.type) ??
      unknownField(tool.filters, 'filters') ??
      unknownField(tool.user_location, 'user_location')
    if (fault) return fault
    if (reservedNames.includes(tool.name)) return invalid(`function name "${tool.name}" is reserved`, 'tools')
    if (tool.search_context_size && !['low', 'medium', 'high'].includes(tool.search_context_size))
      return invalid('invalid search_context_size', 'search_context_size')
    const { search_domain_filter: domains = [], search_recency_filter: recency } = tool.filters ?? {}
    if (!Array.isArray(domains) || domains.length > 20 || domains.some((one: Any) => /:\/\//.test(one)))
      return refused(400, 'invalid_search_domain_filter', 'invalid domains', 'search_domain_filter')
    if (recency && !['hour', 'day', 'week', 'month', 'year'].includes(recency))
      return refused(400, 'invalid_parameter', 'invalid search_recency_filter', 'search_recency_filter')
  }
  if (body.response_format && body.response_format.type !== 'json_schema')
    return invalid('unsupported response_format', 'response_format')
  if (body.temperature < 0 || body.temperature > 2) return invalid('temperature must be within 0 and 2', 'temperature')
  return null
}

export type AgentOptions = {
  /** How often it searches. */
  searches?: number
  /** Members of the usage that replace the emulator's; null leaves it out. */
  usage?: object | null
  status?: 'completed' | 'incomplete' | 'failed'
  /** Break the connection after this many events. */
  cutAfter?: number
  /** Send nothing more after this many events, and leave the connection open. */
  hangAfter?: number
}

/** Answers a run, whole or streamed as the request asks. */
export function agentReply(options: AgentOptions = {}): Reply {
  return async (request, response) => {
    const answer = answerTo(request.body, options)
    if (!request.body.stream) return json(200, answer)(request, response)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const [number, event] of eventsOf(answer).entries()) {
      if (number === options.cutAfter) return void response.destroy()
      if (number === options.hangAfter) return
      // Without the names of events.
      await new Promise(resolve => response.write(`data: ${JSON.stringify(event)}\n\n`, resolve))
      await turn()
    }
    response.end()
  }
}

const pages = ['https://a.example/one', 'https://b.example/two'].map((url, index) => ({
  id: index + 1,
  url,
  title: `Page ${index + 1}`,
  snippet: 'A text.',
  date: '2026-11-01',
  last_updated: '2026-11-20',
  source: 'web',
}))
const tokensIn = (text: string) => Math.ceil(text.length / 4)

function answerTo(body: Any, { searches, usage, status = 'completed' }: AgentOptions): Any {
  const items = typeof body.input === 'string' ? [{ role: 'user', content: body.input }] : body.input
  const last = items.at(-1)
  const said = String(items.findLast(({ role }: Any) => role === 'user')?.content ?? '')
  const tools: Any[] = body.tools ?? []
  const functions = tools.filter(({ type }) => type === 'function')
  const canSearch = tools.some(({ type }) => type === 'web_search')
  const count = canSearch ? Math.min(searches ?? 1, body.max_tool_calls ?? 100) : 0
  const calls = functions.length > 0 && last.type !== 'function_call_output' && /weather/.test(said)
  const text = body.response_format
    ? JSON.stringify(fakeInstance(body.response_format.json_schema.schema))
    : `Echo: ${said}${count > 0 ? '[2]' : ''}`
  const called = ['Oslo', 'Rome'].map((city, index) => ({
    type: 'function_call',
    id: `fc_${index}`,
    call_id: `call_${index}`,
    name: functions[0]?.name,
    arguments: JSON.stringify({ city }),
    status: 'completed',
  }))
  const message = {
    type: 'message',
    id: 'msg_1',
    role: 'assistant',
    status: 'completed',
    content: [{ type: 'output_text', text, annotations: [] }],
  }
  const output = [
    ...Array.from({ length: count }, () => ({ type: 'search_results', queries: [said], results: pages })),
    ...(calls ? called : [message]),
  ]
  return {
    id: 'resp_emulated',
    object: 'response',
    created_at: 1_790_374_547,
    completed_at: 1_790_374_548,
    status,
    error: status === 'failed' ? { code: 'server_error', message: 'The run failed.' } : null,
    incomplete_details: status === 'incomplete' ? { reason: 'max_output_tokens' } : null,
    model: body.model,
    output: status === 'failed' ? [] : output,
    service_tier: 'fast',
    usage: usage === null ? null : { ...usageOf(items, text, count), ...usage },
  }
}

/** What a search costs here: less than the catalog's price, as the provider has two prices. */
export const searchUsd = 0.001

function usageOf(items: Any[], text: string, count: number): object {
  const input = tokensIn(JSON.stringify(items)) + 1_000 * count
  const output = tokensIn(text)
  const cost = {
    input_cost: (input * 0.25) / 1e6,
    output_cost: (output * 2.5) / 1e6,
    tool_calls_cost: searchUsd * count,
  }
  return {
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
    input_tokens_details: { cached_tokens: 0, cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
    output_tokens_details: { reasoning_tokens: 0 },
    ...(count > 0 && { tool_calls_details: { search_web: { invocation: count, cost_usd: searchUsd * count } } }),
    cost: { currency: 'USD', ...cost, total_cost: cost.input_cost + cost.output_cost + cost.tool_calls_cost },
  }
}

function eventsOf(answer: Any): Any[] {
  const opened = { ...answer, status: 'in_progress', output: [], usage: null }
  const events: Any[] = [
    { type: 'response.created', response: opened },
    { type: 'response.in_progress', response: opened },
  ]
  for (const [index, item] of answer.output.entries()) {
    const at = { output_index: index }
    if (item.type === 'search_results') {
      const call = { type: 'function_call', call_id: `call_s${index}`, id: `fc_s${index}`, name: 'search_web' }
      events.push({
        type: 'response.output_item.added',
        ...at,
        item: { ...call, arguments: '{}', status: 'completed' },
      })
      events.push({ type: 'response.reasoning.search_results', call_id: call.call_id, results: item.results })
    } else events.push({ type: 'response.output_item.added', ...at, item: { ...item, content: null } })
    for (const delta of (item.content?.[0]?.text ?? '').match(/.{1,5}/gsu) ?? [])
      events.push({ type: 'response.output_text.delta', ...at, content_index: 0, item_id: item.id, delta })
    events.push({ type: 'response.output_item.done', ...at, item })
  }
  const end = answer.status === 'failed' ? { error: answer.error } : { response: answer }
  events.push({ type: `response.${answer.status}`, ...end })
  return events.map((event, number) => ({ ...event, sequence_number: number }))
}
