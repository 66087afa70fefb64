import { setImmediate as turn } from 'node:timers/promises'
import { fakeInstance } from '../../shared/providers/sandbox/chat/schema-faker.ts'
import { json, type Reply } from './emulator.ts'
import { refusalOfTier, tierOf } from './openai-tiers.ts'
import { lookaroundFault, openAiStrictFault, propertyNamesFault } from './schema-rules.ts'

// biome-ignore lint/suspicious/noExplicitAny: request bodies of every shape, as they came over the wire
type Body = any

const tokensIn = (text: string) => Math.ceil(text.length / 4)
const reasoningTokens = 16
/** The state of the emulator's reasoning; it refuses any other. */
export const reasoningState = 'gAAAAemulated'

/** Departures of a streamed response from the ordinary one. */
export type ResponsesReplyOptions = {
  /** Break the connection after this many events. */
  cutAfter?: number
  /** End with `response.failed` after this many events. */
  failAfter?: number
  /** The error of `response.failed`. */
  error?: { code: string; message: string }
  /** Leave out the usage. */
  usage?: false
  /** The items of the answer. */
  output?: Body[]
  /** The use of the provider's own tools that the response reports. */
  toolUsage?: object
  /** Writes an event as JSON, in another spelling than usual. */
  write?: (event: object) => string
  /** Members of the response's usage that replace the emulator's. */
  details?: object
}

const knownFields = new Set(
  `model input instructions stream stream_options max_output_tokens max_tool_calls temperature top_p top_logprobs tools
   tool_choice parallel_tool_calls reasoning text include truncation metadata prompt_cache_key safety_identifier user
   store service_tier background context_management`.split(/\s+/),
)
const knownTools = new Set(['function', 'custom', 'namespace', 'tool_search', 'web_search', 'web_search_2025_08_26'])

/** Answers `POST /v1/responses`; without options as OpenAI does. */
export function responsesReply(options: ResponsesReplyOptions = {}): Reply {
  return async (request, response) => {
    const refusal = refusalOf(request.body) ?? refusalOfTier(request.body)
    if (refusal) return refusal(request, response)
    const answer = answerTo(request.body, options)
    if (!request.body.stream) return json(200, answer)(request, response)
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const write = async (event: Body) => {
      const text = `event: ${event.type}\ndata: ${(options.write ?? JSON.stringify)(event)}\n\n`
      await new Promise(resolve => response.write(text, resolve))
      await turn()
    }
    for (const [number, event] of eventsOf(answer).entries()) {
      if (number === options.cutAfter) return void response.destroy()
      if (number === options.failAfter) {
        const error = options.error ?? { code: 'server_error', message: 'The model had an error.' }
        const failed = { ...answer, status: 'failed', error, output: [] }
        await write({ type: 'response.failed', sequence_number: number, response: failed })
        return void response.end()
      }
      if (response.destroyed) return
      await write({ ...event, sequence_number: number })
    }
    response.end()
  }
}

export function isReasoner(model: string): boolean {
  return /^(o\d|gpt-(5|6))/.test(model)
}

/** By the error text "Unsupported value: 'reasoning.effort' does not support … with this model. Supported values are: …". */
export function effortsOf(model: string): string[] {
  if (/^gpt-5(-mini|-nano)?$/.test(model)) return ['minimal', 'low', 'medium', 'high']
  if (/^o\d/.test(model)) return ['low', 'medium', 'high']
  // genkit-ai/genkit#6303 and `_REASONING_SUPPORT_BY_PREFIX` of pydantic-ai: without `none`.
  if (/^gpt-6-astra|^gpt-6\.1-sol/.test(model)) return ['low', 'medium', 'high', 'xhigh', 'max']
  return model === 'gpt-5.1' ? ['none', 'low', 'medium', 'high'] : ['none', 'low', 'medium', 'high', 'xhigh', 'max']
}

function invalid(message: string, param: string, code: string | null = null): Reply {
  return json(400, { error: { message, type: 'invalid_request_error', param, code } })
}

const tooLong = (param: string, { length }: string) =>
  invalid(
    `Invalid '${param}': string too long. Expected a string with maximum length 64, but got a string with length ${length} instead.`,
    param,
    'string_above_max_length',
  )

/** Settings. Sampling: OpenHands/software-agent-sdk#1837; lengths: theopenco/llmgateway#3110, maximhq/bifrost#1000. */
/** Of OpenAI's models alone: xAI and OpenRouter, whose Responses this emulator answers as well, have other names and rules. */
function ownStrictFault({ model }: Body, of: string, schema: Body): string | null {
  return /^(?:o\d|gpt-|chatgpt-)/.test(model) ? openAiStrictFault(of, schema) : null
}

function settingFault(body: Body): Reply | null {
  const effort = body.reasoning?.effort
  if (effort != null && isReasoner(body.model) && !effortsOf(body.model).includes(effort))
    return invalid(
      `Unsupported value: '${effort}' is not supported with the '${body.model}' model.`,
      'reasoning.effort',
      'unsupported_value',
    )
  if (isReasoner(body.model) && effort !== 'none')
    for (const name of ['temperature', 'top_p'])
      if ((body[name] ?? 1) !== 1)
        return invalid(`Unsupported parameter: '${name}' is not supported with this model.`, name)
  // The SDK's types: `type` is `compaction` (openai, ResponseCreateParams.ContextManagement).
  const entry = (body.context_management ?? []).findIndex(({ type }: Body) => type !== 'compaction')
  if (entry >= 0) return invalid(`Invalid value: supported is 'compaction'.`, `context_management[${entry}].type`)
  // vectorize-io/hindsight#58
  if (body.max_output_tokens < 16)
    return invalid(
      `Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got ${body.max_output_tokens} instead.`,
      'max_output_tokens',
      'integer_below_min_value',
    )
  const { name: formatName, schema, strict } = body.text?.format ?? {}
  const strictFault = strict && ownStrictFault(body, `response_format '${formatName}'`, schema)
  const schemaFault = lookaroundFault(schema) ?? propertyNamesFault(formatName, schema) ?? strictFault
  if (schemaFault) return invalid(schemaFault, 'text.format.schema', 'invalid_json_schema')
  for (const name of ['user', 'prompt_cache_key', 'safety_identifier'])
    if (body[name]?.length > 64) return tooLong(name, body[name])
  return null
}

/**
 * Parameters: openai/openai-agents-python#454; ids: BerriAI/litellm#18160; tools whose definition is loaded later:
 * developers.openai.com/api/docs/guides/tools-tool-search.
 */
function toolFault(body: Body): Reply | null {
  const { tools, input } = body
  const given: Body[] = [...(tools ?? []), ...itemTools(input)]
  const searches = given.some(({ type }: Body) => type === 'tool_search')
  for (const [index, { type, name, parameters, strict, defer_loading }] of given
    .flatMap(tool => tool.tools ?? tool)
    .entries()) {
    const at = `tools[${index}]`
    if (type === 'function' && parameters != null && (parameters.type !== 'object' || !parameters.properties))
      return invalid(
        `Invalid schema for function '${name}': In context=(), object schema missing properties.`,
        `${at}.parameters`,
        'invalid_function_parameters',
      )
    const schemaFault =
      lookaroundFault(parameters) ?? (strict === true && ownStrictFault(body, `function '${name}'`, parameters))
    if (schemaFault) return invalid(schemaFault, `${at}.parameters`, 'invalid_function_parameters')
    if (defer_loading && !searches)
      return invalid('Deferred tools require the tool_search tool.', `${at}.defer_loading`)
  }
  for (const [index, { call_id: id }] of (Array.isArray(input) ? input : []).entries())
    if (id?.length > 64) return tooLong(`input[${index}].call_id`, id)
  return null
}

/** The tools that items of the type `additional_tools` declare (openai, ResponseInputItem.AdditionalTools). */
function itemTools(input: Body): Body[] {
  if (!Array.isArray(input)) return []
  return input.flatMap(({ type, tools }) => (type === 'additional_tools' ? tools : []))
}

/** The items of an input (openai, ResponseInputItem), and what messages of a role may consist of. */
const itemTypes = new Set(
  `message function_call function_call_output custom_tool_call custom_tool_call_output reasoning item_reference
   additional_tools tool_search_call tool_search_output compaction compaction_trigger web_search_call`.split(/\s+/),
)
const partTypes = (role: string) =>
  role === 'assistant' ? ['output_text', 'refusal'] : ['input_text', 'input_image', 'input_file']

/** The letters with which ids of items begin, as its refusals of others name them (octos-org/octos#32, openai/codex#33176). */
const idPrefixes: Record<string, string> = {
  message: 'msg',
  function_call: 'fc',
  custom_tool_call: 'ctc',
  reasoning: 'rs',
}

/**
 * Members of items. Null: BerriAI/litellm#13420; lengths: can1357/oh-my-pi#284; summaries: AAswordman/Operit#797; what the SDKs
 * add: openai/openai-python#2374.
 */
function memberFault({ type = 'message', id, summary, ...item }: Body, at: string): Reply | null {
  const prefix = idPrefixes[type] ?? ''
  if (id?.length > 64) return tooLong(`${at}.id`, id)
  if (id !== undefined && !String(id).startsWith(prefix))
    return invalid(
      `Invalid '${at}.id': '${id}'. Expected an ID that begins with '${prefix}'.`,
      `${at}.id`,
      'invalid_value',
    )
  if (type === 'reasoning' && summary === undefined)
    return invalid(`Missing required parameter: '${at}.summary'.`, `${at}.summary`, 'missing_required_parameter')
  const added =
    'parsed_arguments' in item ? 'parsed_arguments' : item.content?.[0]?.parsed !== undefined && 'content[0].parsed'
  if (added) return invalid(`Unknown parameter: '${at}.${added}'.`, `${at}.${added}`, 'unknown_parameter')
  if (item.status === null)
    return invalid(
      `Invalid type for '${at}.status': expected one of 'in_progress', 'completed', or 'incomplete', but got null instead.`,
      `${at}.status`,
      'invalid_type',
    )
  return null
}

/**
 * Items. Their parts: the error text "Invalid value: 'text'. Supported values are: …"; calls and results:
 * continuedev/continue#10092, bytedance/trae-agent#245; reasoning: openai/openai-node#1567.
 */
function itemFault(items: Body[]): Reply | null {
  for (const [index, { type = 'message', role, content, call_id: id }] of items.entries()) {
    if (!itemTypes.has(type)) return invalid(`Invalid value: '${type}'.`, `input[${index}]`, 'invalid_value')
    for (const [at, part] of (type === 'message' && Array.isArray(content) ? content : []).entries()) {
      const supported = partTypes(role)
      if (!supported.includes(part.type))
        return invalid(
          `Invalid value: '${part.type}'. Supported values are: '${supported.join("', '")}'.`,
          `input[${index}].content[${at}]`,
          'invalid_value',
        )
    }
    const call = /^(function|custom_tool)_call_output$/.test(type) && type.replace('_output', '')
    if (call && !items.slice(0, index).some(one => one.type === call && one.call_id === id))
      return invalid(`No tool call found for ${call.replaceAll('_', ' ')} output with call_id ${id}.`, 'input')
    if (/^(function|custom_tool)_call$/.test(type)) {
      const output = items.slice(index).some(one => one.type === `${type}_output` && one.call_id === id)
      if (!output) return invalid(`No tool output found for ${type.replaceAll('_', ' ')} ${id}.`, 'input')
    }
    // As the last item it is taken: Codex ends with it when it goes on after a stream that broke off.
    const next = items[index + 1]
    if (type === 'reasoning' && next && (next.role === 'user' || /_output$/.test(next.type)))
      return invalid("Item 'rs_1' of type 'reasoning' was provided without its required following item.", 'input')
  }
  return null
}

/** github.com/vercel/ai/issues/7543. */
const notFound = (id: string) =>
  json(404, { error: { message: `Item with id '${id}' not found.`, type: 'invalid_request_error', param: 'input' } })

function refusalOf(body: Body): Reply | null {
  const unknown = Object.keys(body).find(name => !knownFields.has(name))
  if (unknown) return invalid(`Unknown parameter: '${unknown}'.`, unknown, 'unknown_parameter')
  // BerriAI/litellm#5803 of chat; openai, ResponseCreateParams: "Only set this when you set `stream: true`."
  if (body.stream_options != null && !body.stream)
    return invalid("The 'stream_options' parameter is only allowed when 'stream' is enabled.", 'stream_options')
  if (body.store !== false) return invalid('This organization stores nothing.', 'store')
  const tool = [...(body.tools ?? []), ...itemTools(body.input)].findIndex((one: Body) => !knownTools.has(one.type))
  if (tool >= 0) return invalid(`Unsupported tool in tools[${tool}].`, `tools[${tool}].type`)
  const fault = settingFault(body) ?? toolFault(body)
  if (fault) return fault
  const items = Array.isArray(body.input) ? body.input : []
  for (const [index, { type, encrypted_content: state, id, ...item }] of items.entries()) {
    const internal = `internal_chat_message_metadata_passthrough`
    if (internal in item)
      return invalid(`Unknown parameter: 'input[${index}].${internal}'.`, `input[${index}]`, 'unknown_parameter')
    if (type === 'item_reference') return notFound(id)
    const memberRefusal = memberFault(items[index], `input[${index}]`)
    if (memberRefusal) return memberRefusal
    // Wei-Shaw/sub2api#6366
    if (type === 'compaction_trigger' && index < items.length - 1)
      return invalid("The 'compaction_trigger' item must be the final input item.", `input[${index}]`)
    if (type !== 'reasoning') continue
    if (!state) return notFound(id)
    if (state !== reasoningState)
      return invalid('The encrypted content could not be verified.', `input[${index}]`, 'invalid_encrypted_content')
  }
  const itemRefusal = itemFault(items)
  if (itemRefusal) return itemRefusal
  if (JSON.stringify(body.input).includes('too long'))
    return invalid('Your input exceeds the context window of this model.', 'input', 'context_length_exceeded')
  return null
}

function textOf(content: Body): string {
  if (typeof content === 'string') return content
  return (content ?? []).map((part: Body) => part.text ?? (part.type ? ` [${part.type}]` : '')).join('')
}

function promptOf({ instructions, input }: Body): string {
  if (typeof input === 'string') return (instructions ?? '') + input
  const texts = input.map((item: Body) => textOf(item.content ?? item.output ?? item.arguments ?? item.input))
  return (instructions ?? '') + texts.join('')
}

/** One call for each capitalised word after "in" or "and", when the weather is asked for and a tool is offered. */
function callsFor({ input, tools: listed = [] }: Body): Body[] {
  const tools = [...listed, ...itemTools(input)]
  const last = typeof input === 'string' ? { role: 'user', content: input } : input.at(-1)
  const text = last.role === 'user' ? textOf(last.content) : ''
  const [first] = tools
  const namespace = first?.type === 'namespace' ? first.name : undefined
  const tool = namespace ? first.tools[0] : first
  if (!tool || !/weather/i.test(text)) return []
  return [...text.matchAll(/\b(?:in|and) ([A-Z]\w+)/g)].map(([, city], index) => {
    const head = { id: `fc_${index}`, call_id: `call_${index}`, name: tool.name, namespace, status: 'completed' }
    return tool.type === 'custom'
      ? { type: 'custom_tool_call', ...head, id: `ctc_${index}`, input: city }
      : { type: 'function_call', ...head, arguments: JSON.stringify({ city }) }
  })
}

function echoOf({ input }: Body): string {
  if (typeof input === 'string') return `Echo: ${input}`
  const last = input.findLast((item: Body) => item.role === 'user' || /_output$/.test(item.type ?? ''))
  return `Echo: ${textOf(last?.content ?? last?.output)}`
}

/** The output items of an answer, and whether its text was cut at the limit. */
function outputOf(body: Body): { output: Body[]; isCut: boolean } {
  // Exactly one item: openai/codex#22809.
  if (Array.isArray(body.input) && body.input.at(-1)?.type === 'compaction_trigger')
    return { output: [{ type: 'compaction', id: 'cmp_emulated', encrypted_content: reasoningState }], isCut: false }
  const calls = callsFor(body)
  const schema = body.text?.format?.schema
  const whole = schema ? JSON.stringify(fakeInstance(schema)) : echoOf(body)
  const text = body.max_output_tokens ? whole.slice(0, body.max_output_tokens * 4) : whole
  const isCut = calls.length === 0 && text.length < whole.length
  const message = {
    type: 'message',
    id: 'msg_emulated',
    role: 'assistant',
    status: isCut ? 'incomplete' : 'completed',
    content: [{ type: 'output_text', text, annotations: [], logprobs: [] }],
  }
  const encrypted_content = body.include?.includes('reasoning.encrypted_content') ? reasoningState : null
  const thought = { type: 'reasoning', id: 'rs_emulated', summary: [], encrypted_content }
  const isReasoning = /^(o|gpt-5|gpt-6)/.test(body.model)
  // Before the answer: developers.openai.com/api/docs/guides/compaction.
  const threshold = body.context_management?.[0]?.compact_threshold
  const isLong = threshold && tokensIn(promptOf(body)) > threshold
  const compaction = { type: 'compaction', id: 'cmp_emulated', encrypted_content: reasoningState }
  const head = [...(isLong ? [compaction] : []), ...(isReasoning ? [thought] : [])]
  return { output: [...head, ...(calls.length > 0 ? calls : [message])], isCut }
}

function answerTo(body: Body, { usage: hasUsage, details, output: given, toolUsage }: ResponsesReplyOptions): Body {
  const { output, isCut } = given ? { output: given, isCut: false } : outputOf(body)
  const written = output.map(item => item.arguments ?? item.input ?? item.content?.[0].text ?? '').join('')
  const reasoning = output.some(({ type }) => type === 'reasoning') ? reasoningTokens : 0
  const [input, completion] = [tokensIn(promptOf(body)), tokensIn(written) + reasoning]
  const usage = {
    input_tokens: input,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: completion,
    output_tokens_details: { reasoning_tokens: reasoning },
    total_tokens: input + completion,
    ...details,
  }
  return {
    id: idOf(body),
    object: 'response',
    created_at: 1_795_132_800,
    completed_at: 1_795_132_801,
    status: isCut ? 'incomplete' : 'completed',
    background: false,
    error: null,
    frequency_penalty: 0,
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    instructions: body.instructions ?? null,
    max_output_tokens: body.max_output_tokens ?? null,
    max_tool_calls: null,
    model: `${body.model}-2026-01-01`,
    output,
    presence_penalty: 0,
    parallel_tool_calls: body.parallel_tool_calls ?? true,
    previous_response_id: null,
    prompt_cache_key: body.prompt_cache_key ?? null,
    reasoning: { effort: null, summary: null },
    safety_identifier: null,
    service_tier: tierOf(body),
    store: false,
    temperature: 1,
    text: { format: body.text?.format ?? { type: 'text' }, verbosity: 'medium' },
    tool_choice: body.tool_choice ?? 'auto',
    tools: (body.tools ?? []).map(echoOfTool),
    top_logprobs: 0,
    top_p: 1,
    truncation: 'disabled',
    usage: hasUsage === false ? null : usage,
    ...(toolUsage && { tool_usage: toolUsage }),
    metadata: body.metadata ?? {},
  }
}

/** An id for each step of a conversation: LangGraph replaces a message by a later one of the same id. */
function idOf({ input }: Body): string {
  const results = Array.isArray(input) ? input.filter(({ type }) => /_output$/.test(type ?? '')).length : 0
  return `resp_emulated${results || ''}`
}

/** A tool as the answer names it: with its defaults. */
function echoOfTool(tool: Body): Body {
  return tool.type === 'function' ? { description: null, parameters: null, strict: true, ...tool } : tool
}

function eventsOf(answer: Body): Body[] {
  const begun = { ...answer, status: 'in_progress', completed_at: null, output: [], usage: null }
  return [
    { type: 'response.created', response: begun },
    { type: 'response.in_progress', response: begun },
    ...answer.output.flatMap(eventsOfItem),
    { type: `response.${answer.status}`, response: answer },
  ]
}

function eventsOfItem(item: Body, output_index: number): Body[] {
  const at = { output_index, item_id: item.id }
  const pieces = (text: string) => text.match(text.length > 10_000 ? /.{1,200}/gsu : /.{1,5}/gsu) ?? []
  const around = (started: Body, events: Body[]) => [
    { type: 'response.output_item.added', output_index, item: { ...item, status: 'in_progress', ...started } },
    ...events,
    { type: 'response.output_item.done', output_index, item },
  ]
  if (item.type === 'function_call')
    return around({ arguments: '' }, [
      ...pieces(item.arguments).map(delta => ({ type: 'response.function_call_arguments.delta', ...at, delta })),
      { type: 'response.function_call_arguments.done', ...at, name: item.name, arguments: item.arguments },
    ])
  if (item.type === 'custom_tool_call')
    return around({ input: '' }, [
      ...pieces(item.input).map(delta => ({ type: 'response.custom_tool_call_input.delta', ...at, delta })),
      { type: 'response.custom_tool_call_input.done', ...at, input: item.input },
    ])
  if (item.type === 'reasoning') return around({ summary: [] }, (item.summary ?? []).flatMap(eventsOfSummary(at)))
  if (item.type !== 'message') return around({}, [])
  const eventsOfPart = (part: Body, content_index: number) => {
    const place = { ...at, content_index }
    if (part.type === 'refusal')
      return [
        ...pieces(part.refusal).map(delta => ({ type: 'response.refusal.delta', ...place, delta })),
        { type: 'response.refusal.done', ...place, refusal: part.refusal },
      ]
    return [
      { type: 'response.content_part.added', ...place, part: { ...part, text: '' } },
      ...pieces(part.text).map(delta => ({ type: 'response.output_text.delta', ...place, delta, logprobs: [] })),
      { type: 'response.output_text.done', ...place, text: part.text, logprobs: [] },
      { type: 'response.content_part.done', ...place, part },
    ]
  }
  return around({ content: [] }, item.content.flatMap(eventsOfPart))
}

function eventsOfSummary(at: object): (part: Body, summary_index: number) => Body[] {
  return (part, summary_index) => [
    { type: 'response.reasoning_summary_part.added', ...at, summary_index, part: { ...part, text: '' } },
    { type: 'response.reasoning_summary_text.delta', ...at, summary_index, delta: part.text },
    { type: 'response.reasoning_summary_text.done', ...at, summary_index, text: part.text },
    { type: 'response.reasoning_summary_part.done', ...at, summary_index, part },
  ]
}
