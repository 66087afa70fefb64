import { claudeGrammarFault, claudeSchemaFault } from './schema-rules.ts'

// biome-ignore lint/suspicious/noExplicitAny: request bodies come in every shape
type Any = any

const fields = [
  ...['model', 'max_tokens', 'messages', 'system', 'tools', 'tool_choice', 'stop_sequences', 'temperature', 'top_k'],
  ...['top_p', 'thinking', 'output_config', 'metadata', 'service_tier', 'stream', 'cache_control'],
]
/**
 * Members that the API takes with a beta only; without it: "context_management: Extra inputs are not permitted"
 * (anthropics/claude-code#14135). The betas: @anthropic-ai/sdk, resources/beta/beta.ts AnthropicBeta.
 */
const fieldsByBeta: Record<string, RegExp> = {
  thread: /message-threads-/,
  output_format: /structured-outputs-/,
  container: /skills-|code-execution-/,
  speed: /fast-mode-/,
  mcp_servers: /mcp-client-/,
  diagnostics: /cache-diagnosis-/,
  fallbacks: /server-side-fallback-/,
  context_management: /context-management-|compact-/,
}
const withoutSampling = /^claude-(opus-4-[7-9]|opus-[5-9]|sonnet-[5-9]|haiku-[5-9]|fable|mythos)/
const imageTypes = ['image/jpeg', 'image/png', 'image/gif', 'image/webp']
const efforts = ['low', 'medium', 'high', 'xhigh', 'max']
const id = /^[a-zA-Z0-9_-]+$/

class Fault extends Error {}

function refuse(condition: unknown, message: string): void {
  if (condition) throw new Fault(message)
}

/** What the Messages API would say about this request with these betas, or null when it takes it. */
export function checkRequest(body: Any, version: string, betas = ''): string | null {
  try {
    refuse(!/^20\d\d-\d\d-\d\d$/.test(version), 'anthropic-version: header is required')
    refuse(typeof body !== 'object' || body === null, 'The request body is not valid JSON')
    checkFields(body, version, betas)
    checkCacheMarks(body)
    checkTools(body)
    checkSchemas(body)
    checkModelRules(body)
    checkMessages(body.messages, betas)
    checkThinking(body)
    return null
  } catch (error) {
    if (error instanceof Fault) return error.message
    throw error
  }
}

function checkCacheMarks(body: Any): void {
  const system = Array.isArray(body.system) ? body.system : []
  const contents = (body.messages ?? []).flatMap((message: Any) => message?.content ?? [])
  const bearers = [body, ...system, ...(body.tools ?? []), ...contents]
  const marks = bearers.flatMap(bearer => bearer?.cache_control ?? [])
  refuse(marks.length > 4, `A maximum of 4 blocks with cache_control may be provided. Found ${marks.length}.`)
  for (const { type, ttl = '5m', ...others } of marks) {
    refuse(type !== 'ephemeral', "cache_control: Input tag must be 'ephemeral'")
    refuse(!['5m', '1h'].includes(ttl), "cache_control.ephemeral.ttl: Input should be '5m' or '1h'")
    refuse(Object.keys(others).length > 0, 'cache_control.ephemeral: Extra inputs are not permitted')
  }
}

function checkFields(body: Any, version: string, betas: string): void {
  for (const field of Object.keys(body)) {
    const isKnown = fields.includes(field) || fieldsByBeta[field]?.test(betas)
    refuse(!isKnown, `${field}: Extra inputs are not permitted`)
  }
  refuse(typeof body.model !== 'string', 'model: Field required')
  refuse(body.max_tokens === undefined, 'max_tokens: Field required')
  refuse(
    !Number.isInteger(body.max_tokens) || body.max_tokens < 1,
    'max_tokens: Input should be greater than or equal to 1',
  )
  for (const field of ['temperature', 'top_p', 'top_k']) {
    const removed = version >= '2026-10-21' || withoutSampling.test(body.model)
    refuse(body[field] !== undefined && removed, `${field}: not supported by this model or API version`)
  }
  refuse(body.temperature < 0 || body.temperature > 1, 'temperature: range: 0..1')
  for (const stop of body.stop_sequences ?? []) {
    refuse(stop.trim() === '', 'stop_sequences: each stop sequence must contain non-whitespace')
  }
  if (Array.isArray(body.system)) for (const block of body.system) checkText(block, 'system')
  refuse(body.system === '', 'system: text content blocks must be non-empty')
  const tiers = [undefined, 'auto', 'standard_only']
  refuse(!tiers.includes(body.service_tier), "service_tier: Input should be 'auto' or 'standard_only'")
  const { effort = 'low', format } = body.output_config ?? {}
  refuse(!efforts.includes(effort), `output_config.effort: Input should be ${efforts.join(', ')}`)
  const badFormat = format && (format.type !== 'json_schema' || typeof format.schema !== 'object')
  refuse(badFormat, 'output_config.format: Field required')
}

function checkSchemas({ output_config, output_format, tools }: Any): void {
  const fault = claudeSchemaFault(tools ?? [], output_config?.format?.schema ?? output_format?.schema)
  refuse(fault, fault!)
  const compiled: [schema: Any, at: string][] = [
    [output_format?.schema, 'output_format.schema'],
    [output_config?.format?.schema, 'output_config.format.schema'],
    ...(tools ?? []).map((tool: Any, index: number) => [tool.strict && tool.input_schema, `tools.${index}.custom`]),
  ]
  for (const [schema, at] of compiled) {
    const grammarFault = claudeGrammarFault(schema, at)
    refuse(grammarFault, grammarFault!)
  }
}

const samplingIsExclusive = /^claude-(opus|sonnet|haiku)-4-[156]/
const continuesAnswers = /^claude-(opus|sonnet|haiku)-4-5/
/** The text of that refusal, as recorded: "does not support effort level 'xhigh'". */
const withoutXhigh = /^claude-(opus|sonnet)-4-[56]/
/** anthropics/claude-code#30760, TauricResearch/TradingAgents#831 */
const withoutEffort = /^claude-haiku-4-5/
const cannotBeForced = /^claude-(fable-5-1|opus-5-5|sonnet-5-5)/

/** What single models refuse: open-webui/open-webui#17922, vercel/ai#12296; forced tools: the API's text of that refusal. */
function checkModelRules(body: Any): void {
  const { model, temperature, top_p, messages, tool_choice: choice, max_tokens, output_config } = body
  const hasBoth = temperature !== undefined && top_p !== undefined
  refuse(
    hasBoth && samplingIsExclusive.test(model),
    '`temperature` and `top_p` cannot both be specified for this model. Please use only one.',
  )
  const isContinued = messages?.at?.(-1)?.role === 'assistant'
  refuse(
    isContinued && /^claude-/.test(model) && !continuesAnswers.test(model),
    'This model does not support assistant message prefill. The conversation must end with a user message.',
  )
  // tailcallhq/forgecode#1872, anomalyco/opencode#1295
  const ending = isContinued && blocks(messages.at(-1).content).at(-1)
  const text = ending?.type === 'text' ? ending.text : ''
  refuse(text !== text.trimEnd(), 'messages: final assistant content cannot end with trailing whitespace')
  refuse(
    (choice?.type === 'any' || choice?.type === 'tool') && cannotBeForced.test(model),
    'tool_choice: this model cannot be forced to call a tool',
  )
  const effort = output_config?.effort
  refuse(effort !== undefined && withoutEffort.test(model), 'This model does not support the effort parameter.')
  refuse(effort === 'xhigh' && withoutXhigh.test(model), `This model does not support effort level '${effort}'.`)
  // BerriAI/litellm#24900
  refuse(
    /^claude-.*-4-5/.test(model) && max_tokens > 64_000,
    `max_tokens: ${max_tokens} > 64000, which is the maximum allowed number of output tokens for ${model}`,
  )
}

function checkTools({ tools, tool_choice: choice }: Any): void {
  refuse(choice && !tools, 'tool_choice: may only be specified while providing tools')
  for (const [index, tool] of (tools ?? []).entries()) {
    // "carrying no `name`": @anthropic-ai/sdk, BetaBrowserToolset20260801.
    if (/_toolset_\d{8}$/.test(tool.type)) {
      const unknown = Object.keys(tool).find(name => !['type', 'configs', 'cache_control'].includes(name))
      refuse(unknown, `tools.${index}.${tool.type}.${unknown}: Extra inputs are not permitted`)
      continue
    }
    refuse(
      !/^[a-zA-Z0-9_-]{1,128}$/.test(tool.name),
      `tools.${index}.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'`,
    )
    refuse(tool.input_schema?.type !== 'object', `tools.${index}.input_schema.type: Field required`)
  }
  refuse(
    choice && !['auto', 'any', 'tool', 'none'].includes(choice.type),
    'tool_choice.type: Input should be auto, any, tool or none',
  )
  const unknown = choice?.type === 'tool' && !tools.some((tool: Any) => tool.name === choice.name)
  refuse(unknown, `Tool '${choice?.name}' not found in provided tools`)
}

function checkThinking({ thinking, max_tokens, temperature, tool_choice, messages }: Any): void {
  if (!thinking || thinking.type === 'disabled') return
  refuse(
    !['enabled', 'adaptive'].includes(thinking.type),
    'thinking.type: Input should be enabled, adaptive or disabled',
  )
  const forced = tool_choice?.type === 'any' || tool_choice?.type === 'tool'
  refuse(forced, 'Thinking may not be enabled when tool_choice forces tool use.')
  refuse(temperature !== undefined && temperature !== 1, '`temperature` may only be set to 1 when thinking is enabled.')
  if (thinking.type === 'adaptive') return
  refuse(
    !(thinking.budget_tokens >= 1024),
    'thinking.enabled.budget_tokens: Input should be greater than or equal to 1024',
  )
  refuse(thinking.budget_tokens >= max_tokens, '`max_tokens` must be greater than `thinking.budget_tokens`')
  // anomalyco/opencode#3077; only the first message of a turn has to (anthropics/claude-cookbooks, extended_thinking_with_tool_use).
  const hasResults = ({ content }: Any) => blocks(content).some(block => block.type === 'tool_result')
  if (!hasResults(messages.at(-1))) return
  const asked = messages.findLastIndex((message: Any) => message.role === 'user' && !hasResults(message))
  const turn = messages.slice(asked + 1).find((message: Any) => message.role === 'assistant')
  const first = blocks(turn.content)[0]?.type
  const isThinking = first === 'thinking' || first === 'redacted_thinking'
  refuse(!isThinking, `Expected \`thinking\` or \`redacted_thinking\`, but found \`${first}\``)
}

function checkMessages(messages: Any, betas: string): void {
  refuse(!Array.isArray(messages) || messages.length === 0, 'messages: at least one message is required')
  refuse(messages[0].role !== 'user', 'messages: first message must use the "user" role')
  for (const [index, { role, content, output_config }] of messages.entries()) {
    const at = `messages.${index}`
    // Claude Code sends these without text after a compaction, with the beta.
    const isControl = role === 'system' && output_config !== undefined
    const isRefused = isControl && !/per-turn-control-/.test(betas)
    refuse(isRefused, `${at}.output_config: Extra inputs are not permitted`)
    refuse(!['user', 'assistant', 'system'].includes(role), `${at}.role: Input should be 'user' or 'assistant'`)
    const before = messages[index - 1]
    refuse(before?.role === role, `messages: roles must alternate, but found multiple "${role}" roles in a row`)
    refuse(!isControl && (content === '' || content?.length === 0), `${at}: all messages must have non-empty content`)
    // anomalyco/opencode#1279, trycua/cua#524
    const ids = blocks(content).flatMap(block => (block.type === 'tool_use' ? [block.id] : []))
    refuse(new Set(ids).size < ids.length, `${at}: \`tool_use\` ids must be unique`)
    for (const [position, block] of blocks(content).entries()) checkBlock(block, role, `${at}.content.${position}`)
    checkResults(before, blocks(content), at)
  }
}

/** Every tool call of the message before is answered at the start of this one, and nothing else is. */
function checkResults(before: Any, content: Any[], at: string): void {
  const called = blocks(before?.content ?? '')
    .filter(block => block.type === 'tool_use')
    .map(block => block.id)
  const answered = content.filter(block => block.type === 'tool_result').map(block => block.tool_use_id)
  const stray = answered.find(one => !called.includes(one))
  refuse(stray, `${at}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${stray}`)
  const missing = called.filter(one => !answered.includes(one))
  refuse(
    missing.length > 0,
    `${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${missing}`,
  )
  const leading = content.slice(0, answered.length).every(block => block.type === 'tool_result')
  refuse(!leading, `${at}: \`tool_result\` blocks must come first`)
}

function checkBlock(block: Any, role: string, at: string): void {
  const allowed: Record<string, string[]> = {
    user: ['text', 'image', 'document', 'tool_result'],
    assistant: ['text', 'tool_use', 'thinking', 'redacted_thinking'],
    system: ['text'],
  }
  refuse(!allowed[role]?.includes(block.type), `${at}: ${block.type} blocks are not allowed in ${role} messages`)
  if (block.type === 'text') checkText(block, at)
  if (block.type === 'image') checkSource(block.source, imageTypes, at)
  // `PlainTextSource`: @anthropic-ai/sdk, resources/messages/messages.ts.
  if (block.type === 'document' && block.source.type === 'text')
    refuse(block.source.media_type !== 'text/plain', `${at}.source.media_type: Input should be 'text/plain'`)
  else if (block.type === 'document') checkSource(block.source, ['application/pdf'], at)
  if (block.type === 'tool_use') {
    refuse(!id.test(block.id), `${at}.id: String should match pattern '^[a-zA-Z0-9_-]+$'`)
    const isObject = typeof block.input === 'object' && block.input !== null && !Array.isArray(block.input)
    refuse(!isObject, `${at}.input: Input should be a valid dictionary`)
  }
}

function checkText(block: Any, at: string): void {
  refuse(typeof block.text !== 'string', `${at}.text: Field required`)
  refuse(block.text === '', `${at}: text content blocks must be non-empty`)
  refuse(block.text.trim() === '', `${at}: text content blocks must contain non-whitespace text`)
}

function checkSource(source: Any, mediaTypes: string[], at: string): void {
  if (source.type === 'url') {
    refuse(!source.url.startsWith('https://'), `${at}.source.url: Only HTTPS URLs are supported`)
    return
  }
  refuse(source.type !== 'base64', `${at}.source.type: Input should be 'base64' or 'url'`)
  refuse(!mediaTypes.includes(source.media_type), `${at}.source.media_type: Input should be ${mediaTypes.join(', ')}`)
  refuse(!/^[A-Za-z0-9+/]+={0,2}$/.test(source.data), `${at}.source.data: invalid base64 data`)
  const isPng = source.data.startsWith('iVBORw0KGgo')
  refuse(
    isPng && source.media_type !== 'image/png',
    `${at}: The image was specified using the ${source.media_type} media type, but the image appears to be a image/png image`,
  )
}

function blocks(content: Any): Any[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? [])
}
