import { cachesByMarks } from '../../../catalog/traits.ts'
import type { ChatRequest } from '../../../kinds/chat.ts'
import type { Call } from '../../contract.ts'
import { type ClaudeThinking, claudeEffort, claudeThinking } from '../../toolkit/claude-thinking.ts'
import { assertOneTextAnswer, invalid, unsupported } from '../../toolkit/field-refusals.ts'
import { cleanChat, maxCacheTtl, noticeableFieldsExcept, ownFields } from '../../toolkit/request-fields.ts'
import { withSessionMarks } from '../../toolkit/session-marks.ts'
import { type Block, type CachePoint, cachePoint, conversation, type Turn, withPlacedPoints } from './conversation.ts'

/** Default output ceiling: without one, models end at a much lower limit of their own. */
const defaultMaxTokens = 16_384
/** "A maximum of 4 blocks with cache_control may be provided" (https://github.com/continuedev/continue/pull/6937). */
const maxCachePoints = 4

const jsonInstruction = 'Answer with one valid JSON object and nothing else: no text around it and no code fence.'
const noToolInstruction = 'Answer without calling a tool.'

/** The supported fields; all others have no counterpart in the Converse API. */
const supportedFields: ReadonlySet<string> = new Set([
  ...ownFields,
  ...['model', 'messages', 'max_tokens', 'max_completion_tokens', 'stream', 'stream_options', 'stop', 'n', 'logprobs'],
  ...[
    'tools',
    'tool_choice',
    'parallel_tool_calls',
    'response_format',
    'modalities',
    'reasoning_effort',
    'cache_control',
  ],
])

/** A Converse body, the caller's fields that it lacks, and whether it has cache marks of the gateway. */
type ConverseCall = { body: Record<string, unknown>; dropped: string[]; cacheMarked: boolean }

/**
 * The Converse body of a chat call, and the caller's fields that were dropped. Throws a GatewayError 400 naming a required
 * field that cannot be expressed.
 */
export function converseRequest(call: Call<'chat'>): ConverseCall {
  // "You invoked an unsupported model or your request did not allow prompt caching" (BerriAI/litellm#39210).
  const takesMarks = cachesByMarks(call.target)
  const marked = withSessionMarks(call)
  const { body, dropped } = cleanChat(marked ?? call.body, takesMarks ? maxCacheTtl(call.target.deployment) : 'none')
  const writer = new ConverseWriter({ ...call, body }, takesMarks)
  const converse = writer.write()
  // Marks of the gateway's own are no loss to the caller.
  const lost = marked ? writer.dropped.filter(name => name !== 'cache_control') : writer.dropped
  return {
    body: converse,
    dropped: [...dropped, ...lost, ...noticeableFieldsExcept(body, writer.supported)],
    cacheMarked: marked !== null,
  }
}

type ToolChoice = { auto: object } | { any: object } | { tool: { name: string } }
type ToolConfig = { tools: object[]; toolChoice?: ToolChoice }

class ConverseWriter {
  readonly #call: Call<'chat'>
  readonly #body: ChatRequest
  readonly #takesMarks: boolean
  /** Whether Claude answers, whose own fields pass beside those that all models have. */
  readonly #isClaude: boolean
  readonly #maxTokens: number
  readonly supported = new Set(supportedFields)
  readonly dropped: string[] = []

  constructor(call: Call<'chat'>, takesMarks: boolean) {
    this.#call = call
    this.#body = call.body
    this.#takesMarks = takesMarks
    this.#isClaude = call.target.model.owned_by === 'anthropic'
    this.#maxTokens = maxTokensOf(call)
  }

  write(): Record<string, unknown> {
    assertOneTextAnswer(this.#body)
    const { messages, response_format: format } = this.#body
    const { system, turns, calledTools } = conversation(messages, this.#call.media, this.#takesMarks)
    if (turns.length === 0) throw invalid('messages', 'at least one user message with content is required')
    if (format?.type === 'json_object') system.push({ text: jsonInstruction })
    const last = this.#takesMarks ? cachePoint(this.#body.cache_control) : null
    if (last) turns.at(-1)!.content.push(last)
    const toolConfig = this.#toolConfig(calledTools)
    if (this.#body.tool_choice === 'none' && toolConfig && !this.#isClaude) system.push({ text: noToolInstruction })
    const choice = toolConfig && this.#toolChoice()
    const isForced = choice !== undefined && !('auto' in choice)
    const thinking = this.#isClaude ? claudeThinking(this.#call, this.#maxTokens, isForced) : undefined
    const isLost = placePoints(turns)
    if (removeFirstPoints(toolConfig?.tools ?? [], system, turns) || isLost) this.dropped.push('cache_control')
    return {
      ...(system.length > 0 && { system }),
      messages: turns,
      inferenceConfig: this.#inferenceConfig(thinking),
      toolConfig,
      additionalModelRequestFields: this.#modelFields(thinking, toolConfig),
      outputConfig: outputConfig(format),
    }
  }

  /** Temperatures end at 1. With thinking, Claude takes no sampling. */
  #inferenceConfig(thinking: ClaudeThinking | undefined): object {
    const { temperature, top_p, stop } = this.#body
    const limits = {
      maxTokens: this.#maxTokens,
      stopSequences: typeof stop === 'string' ? [stop] : (stop ?? undefined),
    }
    if (thinking && thinking.type !== 'disabled') return limits
    this.supported.add('temperature').add('top_p')
    return {
      ...limits,
      temperature: temperature == null ? undefined : Math.min(temperature, 1),
      topP: top_p ?? undefined,
    }
  }

  /**
   * "The toolConfig field must be defined when using toolUse and toolResult content blocks" (vxcontrol/pentagi#196): without
   * tools, those that the conversation has called are declared.
   */
  #toolConfig(calledTools: ReadonlySet<string>): ToolConfig | undefined {
    const { tools = [], tool_choice: choice } = this.#body
    if (tools.length === 0) {
      if (choice === 'required' || typeof choice === 'object') this.#toolChoice()
      if (calledTools.size === 0) return undefined
      return { tools: [...calledTools].map(name => toolSpec(name, undefined, undefined)) }
    }
    // The API has no choice of none.
    if (choice === 'none' && calledTools.size === 0) return undefined
    const specs = tools.flatMap((tool, index): object[] => {
      if (tool.type !== 'function') throw unsupported(`tools.${index}.type`, 'only function tools can be used')
      const { name, description, parameters, strict } = tool.function
      // Newer Claude models refuse it here (vercel/ai, issue-18199-sonnet-5-strict-error.json).
      if (strict) this.dropped.push('tools.function.strict')
      const point = this.#takesMarks ? cachePoint(tool.cache_control) : null
      return [toolSpec(name, description, parameters), ...(point ? [point] : [])]
    })
    const toolChoice = this.#toolChoice()
    return { tools: specs, ...(toolChoice && !this.#hasOwnChoice && { toolChoice }) }
  }

  #toolChoice(): ToolChoice | undefined {
    const { tools = [], tool_choice: choice } = this.#body
    if (typeof choice === 'object' && choice !== null) {
      if (choice.type !== 'function') throw unsupported('tool_choice.type', 'only a function can be chosen')
      const { name } = choice.function as { name: string }
      const isOffered = tools.some(tool => tool.type === 'function' && tool.function.name === name)
      if (!isOffered) throw invalid('tool_choice.function.name', 'names none of the tools')
      return { tool: { name } }
    }
    if (choice === 'required' && tools.length === 0) throw invalid('tool_choice', '"required" needs tools')
    if (choice === 'required') return { any: {} }
    return choice === 'auto' ? { auto: {} } : undefined
  }

  /**
   * Whether the choice is sent as Claude's own field, which has more of them. Both at once are refused: "The additional field
   * tool_choice/type conflicts with the existing field toolConfig.toolChoice.auto" (vercel/ai, issue-17267-tool-choice-conflict.json).
   */
  get #hasOwnChoice(): boolean {
    const { tool_choice: choice, parallel_tool_calls: parallel } = this.#body
    return this.#isClaude && (choice === 'none' || parallel === false)
  }

  #ownChoice(): object {
    if (this.#body.tool_choice === 'none') return { type: 'none' }
    const choice = this.#toolChoice() ?? { auto: {} }
    const single = { disable_parallel_tool_use: true }
    if ('tool' in choice) return { type: 'tool', ...choice.tool, ...single }
    return { type: 'any' in choice ? 'any' : 'auto', ...single }
  }

  /** The fields that only models of one vendor have. */
  #modelFields(thinking: ClaudeThinking | undefined, toolConfig: ToolConfig | undefined): object | undefined {
    const { reasoning_effort: effort } = this.#body
    const { target } = this.#call
    if (this.#isClaude) {
      const takesEffort = target.deployment.traits?.effort === true && effort && effort !== 'none'
      return nonEmpty({
        ...(thinking && { thinking }),
        ...(takesEffort && { output_config: { effort: claudeEffort(effort) } }),
        ...(toolConfig && this.#hasOwnChoice && { tool_choice: this.#ownChoice() }),
      })
    }
    if (!effort) return undefined
    if (target.model.owned_by === 'openai') return { reasoning_effort: effort }
    if (target.model.owned_by !== 'amazon') this.dropped.push('reasoning_effort')
    if (target.model.owned_by !== 'amazon' || effort === 'none') return undefined
    return { reasoningConfig: { type: 'enabled', maxReasoningEffort: effort } }
  }
}

function maxTokensOf({ body, target, maxTokens }: Call<'chat'>): number {
  const requested = maxTokens ?? body.max_completion_tokens ?? body.max_tokens
  if (requested) return requested
  const limit = target.deployment.traits?.max_output_tokens ?? target.model.max_output_tokens ?? defaultMaxTokens
  return body.stream ? limit : Math.min(limit, defaultMaxTokens)
}

/** A description must not be empty, and the schema must be an object's. */
function toolSpec(name: string, description: string | undefined, parameters: object | undefined): object {
  const json = { type: 'object', ...(parameters ?? { properties: {} }) }
  return { toolSpec: { name, ...(description?.trim() && { description }), inputSchema: { json } } }
}

function outputConfig(format: ChatRequest['response_format']): object | undefined {
  if (format?.type !== 'json_schema') return undefined
  const { schema, name } = format.json_schema
  if (!schema) throw invalid('response_format.json_schema.schema', 'is required')
  return { textFormat: { type: 'json_schema', structure: { jsonSchema: { schema: JSON.stringify(schema), name } } } }
}

function nonEmpty(fields: object): object | undefined {
  return Object.keys(fields).length > 0 ? fields : undefined
}

/** Puts the cache points of each turn where they are read. Returns whether one had no such place. */
function placePoints(turns: readonly Turn[]): boolean {
  let isLost = false
  for (const turn of turns) {
    const placed = withPlacedPoints(turn.content)
    isLost ||= placed.length < turn.content.length
    turn.content = placed
  }
  return isLost
}

/**
 * Removes the first cache points of a request beyond the maximum: the later ones cover more of it. Returns whether there
 * were any.
 */
function removeFirstPoints(tools: object[], system: (Block | CachePoint)[], turns: readonly Turn[]): boolean {
  const lists: object[][] = [tools, system, ...turns.map(({ content }) => content)]
  const isPoint = (block: object) => 'cachePoint' in block
  const count = lists.reduce((sum, list) => sum + list.filter(isPoint).length, 0)
  let surplus = Math.max(0, count - maxCachePoints)
  if (surplus === 0) return false
  for (const list of lists) {
    for (let at = 0; at < list.length && surplus > 0; at++) {
      if (!isPoint(list[at]!)) continue
      list.splice(at--, 1)
      surplus--
    }
  }
  return true
}
