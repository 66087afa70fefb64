import { profileOf } from '../../../catalog/traits.ts'
import type { ChatRequest } from '../../../kinds/chat.ts'
import type { Call } from '../../contract.ts'
import { claudeEffort, claudeThinking } from '../../toolkit/claude-thinking.ts'
import { assertOneTextAnswer, invalid, unsupported } from '../../toolkit/field-refusals.ts'
import { cleanChat, maxCacheTtl, noticeableFieldsExcept, ownFields } from '../../toolkit/request-fields.ts'
import { withSessionMarks } from '../../toolkit/session-marks.ts'
import { cacheMark, type TextBlock, withMarkAtEnd } from './content.ts'
import { conversation } from './conversation.ts'

/** Default output ceiling of a response that is not streamed: longer ones may outlive the connection. */
const defaultMaxTokens = 16_384

const jsonInstruction: TextBlock = {
  type: 'text',
  text: 'Answer with one valid JSON object and nothing else: no text around it and no code fence.',
}

/** The supported fields; all others have no counterpart in the Messages API. */
const supportedFields: ReadonlySet<string> = new Set([
  ...ownFields,
  ...['model', 'messages', 'max_tokens', 'max_completion_tokens', 'stream', 'stream_options', 'stop', 'n', 'logprobs'],
  ...['tools', 'tool_choice', 'parallel_tool_calls', 'response_format', 'modalities', 'reasoning_effort'],
  ...['user', 'safety_identifier', 'cache_control'],
])
const sampling: ReadonlySet<string> = new Set([...supportedFields, 'temperature', 'top_p'])

/** A Messages body, the caller's fields that it lacks, and whether it has cache marks of the gateway. */
type MessagesCall = { body: Record<string, unknown>; dropped: string[]; cacheMarked: boolean }

/**
 * The Messages body of a chat call, and the caller's fields that were dropped. Throws a GatewayError 400 naming a
 * required field that cannot be expressed.
 */
export function messagesRequest(call: Call<'chat'>): MessagesCall {
  const marked = call.marksCache ? withSessionMarks(call) : null
  const { body, dropped } = cleanChat(marked ?? call.body, maxCacheTtl(call.target.deployment))
  const message = messagesBody({ ...call, body })
  const samples = message.temperature !== undefined || message.top_p !== undefined
  const marks = removeFirstMarks(message) ? ['cache_control'] : []
  return {
    body: message,
    dropped: [...dropped, ...marks, ...noticeableFieldsExcept(body, samples ? sampling : supportedFields)],
    cacheMarked: marked !== null,
  }
}

function messagesBody(call: Call<'chat'>): Record<string, unknown> {
  const { body, target } = call
  const { traits = {} } = target.deployment
  assertOneTextAnswer(body)
  const { system_turns: systemTurns, cache_marks: marks } = profileOf(target)
  const { system, turns } = conversation(body.messages, systemTurns, call.media)
  const { cache_control: mark } = body
  const marksWhole = marks === 'top_level'
  if (turns.length === 0) throw invalid('messages', 'at least one user message with content is required')
  if (body.response_format?.type === 'json_object') system.push(jsonInstruction)

  const maxTokens = maxTokensOf(call)
  const toolChoice = toolChoiceOf(body)
  const isForced = toolChoice?.type === 'any' || toolChoice?.type === 'tool'
  const thinking = claudeThinking(call, maxTokens, isForced)
  const user = body.user ?? (typeof body.safety_identifier === 'string' ? body.safety_identifier : undefined)
  return {
    model: target.deployment.upstream_model,
    max_tokens: maxTokens,
    system: systemOf(system),
    messages: marksWhole || !mark ? turns : withMarkAtEnd(turns, mark),
    ...(body.stream && { stream: true }),
    stop_sequences: stopSequences(body.stop),
    ...(thinking && thinking.type !== 'disabled' ? {} : samplingOf(body)),
    tools: toolsOf(body),
    tool_choice: toolChoice,
    thinking,
    output_config: outputConfig(body, traits.effort === true),
    metadata: user ? { user_id: user } : undefined,
    service_tier: serviceTier(body.service_tier),
    ...(marksWhole && cacheMark(body)),
  }
}

/** "A maximum of 4 blocks with cache_control may be provided" (https://github.com/continuedev/continue/pull/6937). */
const maxCacheMarks = 4

/**
 * Removes the first cache marks of a request beyond the maximum: the later ones cover more of it. Returns whether there
 * were any.
 */
function removeFirstMarks({ tools, system, messages, cache_control }: Record<string, unknown>): boolean {
  const marked: { cache_control?: unknown }[] = []
  const collect = (value: unknown): void => {
    if (Array.isArray(value)) for (const one of value) collect(one)
    if (typeof value !== 'object' || value === null) return
    if ('content' in value) collect(value.content)
    if ('cache_control' in value) marked.push(value)
  }
  for (const part of [tools, system, messages]) collect(part)
  const surplus = marked.length + (cache_control ? 1 : 0) - maxCacheMarks
  for (const block of marked.slice(0, Math.max(0, surplus))) delete block.cache_control
  return surplus > 0
}

function maxTokensOf({ body, target, maxTokens }: Call<'chat'>): number {
  const requested = maxTokens ?? body.max_completion_tokens ?? body.max_tokens
  if (requested) return requested
  const limit = target.model.max_output_tokens ?? defaultMaxTokens
  return body.stream ? limit : Math.min(limit, defaultMaxTokens)
}

/** Plain text, unless a part has a cache mark, which requires blocks. */
function systemOf(blocks: TextBlock[]): string | TextBlock[] | undefined {
  if (blocks.length === 0) return undefined
  if (blocks.some(block => block.cache_control)) return blocks
  return blocks.map(block => block.text).join('\n\n')
}

function stopSequences(stop: ChatRequest['stop']): string[] | undefined {
  return typeof stop === 'string' ? [stop] : (stop ?? undefined)
}

function samplingOf({ temperature, top_p }: ChatRequest): Record<string, number | undefined> {
  // OpenAI's scale ends at 2, Anthropic's at 1.
  return { temperature: temperature == null ? undefined : Math.min(temperature, 1), top_p: top_p ?? undefined }
}

function toolsOf({ tools = [] }: ChatRequest): object[] | undefined {
  if (tools.length === 0) return undefined
  return tools.map((tool, index) => {
    if (tool.type !== 'function') throw unsupported(`tools.${index}.type`, 'only function tools can be used')
    const { name, description, parameters, strict } = tool.function
    return {
      name,
      description,
      input_schema: { type: 'object', ...(parameters ?? { properties: {} }) },
      strict: strict ?? undefined,
      ...cacheMark(tool),
    }
  })
}

type ToolChoice = { type: 'auto' | 'any' | 'tool' | 'none'; name?: string; disable_parallel_tool_use?: true }

function toolChoiceOf(body: ChatRequest): ToolChoice | undefined {
  const { tools = [], tool_choice: choice, parallel_tool_calls } = body
  const single = parallel_tool_calls === false ? { disable_parallel_tool_use: true as const } : {}
  if (typeof choice === 'object') {
    if (choice.type !== 'function') throw unsupported('tool_choice.type', 'only a function can be chosen')
    const { name } = choice.function as { name: string }
    const offered = tools.some(tool => tool.type === 'function' && tool.function.name === name)
    if (!offered) throw invalid('tool_choice.function.name', 'names none of the tools')
    return { type: 'tool', name, ...single }
  }
  if (tools.length === 0) {
    if (choice === 'required') throw invalid('tool_choice', '"required" needs tools')
    return undefined
  }
  if (choice === 'none') return { type: 'none' }
  if (choice === 'required') return { type: 'any', ...single }
  return choice === 'auto' || parallel_tool_calls === false ? { type: 'auto', ...single } : undefined
}

function outputConfig({ reasoning_effort, response_format }: ChatRequest, takesEffort: boolean): object | undefined {
  const effort = takesEffort && reasoning_effort && reasoning_effort !== 'none' ? reasoning_effort : undefined
  if (response_format?.type !== 'json_schema') return effort && { effort: claudeEffort(effort) }
  const { schema } = response_format.json_schema
  if (!schema) throw invalid('response_format.json_schema.schema', 'is required')
  return { effort: effort && claudeEffort(effort), format: { type: 'json_schema', schema } }
}

function serviceTier(tier: unknown): string | undefined {
  if (tier === 'auto') return 'auto'
  return tier === 'default' ? 'standard_only' : undefined
}
