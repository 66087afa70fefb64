import { asText } from '../../base/as-text.ts'
import { GatewayError } from '../../base/errors.ts'
import { isObject } from '../../base/is-object.ts'
import type { ChatProfile } from '../../catalog/chat-profile.ts'
import { canReason } from '../../catalog/traits.ts'
import type { ChatChunk, ChatCompletion, ChatDelta, ChatRequest, ToolCall } from '../../kinds/chat.ts'
import { ChatHoldingDecoder, type SseEvent, type StreamDecoder } from '../stream-decoder.ts'
import { customInput, functionOfCustom } from '../toolkit/custom-tools.ts'
import { digestedName, type NameForm } from '../toolkit/digested-name.ts'
import { isStrict } from '../toolkit/is-strict.ts'
import { asksForThinking, turnsThinkingOff } from './emulated-format.ts'
import { fitParametersSchema } from './fit-schema.ts'
import type { ClientTool, Fitting } from './fitting.ts'
import { GrammarBudget } from './grammar-budget.ts'
import { SchemaGrowth } from './merge-alternatives.ts'
import { clientArguments, type PropertyKeys, withSentKeys } from './property-keys.ts'

type Tool = NonNullable<ChatRequest['tools']>[number]
type FunctionTool = Extract<Tool, { type: 'function' }>
type CustomTool = Extract<Tool, { type: 'custom' }>
type Choice = ChatRequest['tool_choice']

const word = { other: /[^a-zA-Z0-9_-]/g, prefix: '_' }
const nameForms: Record<ChatProfile['tool_name'], NameForm> = {
  word_64: { ...word, pattern: /^[a-zA-Z0-9_-]{1,64}$/, maxCharacters: 64 },
  word_128: { ...word, pattern: /^[a-zA-Z0-9_-]{1,128}$/, maxCharacters: 128 },
  dotted_64: {
    pattern: /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$/,
    other: /[^a-zA-Z0-9_.:-]/g,
    maxCharacters: 64,
    prefix: '_',
  },
  // "function name is invalid, must start with a letter" (MoonshotAI/kimi-cli#1773, #2531)
  lettered_64: { ...word, pattern: /^[a-zA-Z][a-zA-Z0-9_-]{0,63}$/, maxCharacters: 64, prefix: 't_' },
}

/** The name under which a tool is sent: the same wherever it occurs in a conversation. */
export function sentToolName(name: string, { tool_name: form }: ChatProfile): string {
  return digestedName(name, nameForms[form])
}

/** Fits the tools of a request that has some, their choice and the settings that need tools. */
export function fitTools(fitting: Fitting): void {
  chooseAmongAllowed(fitting)
  const { max_tools: maxTools } = fitting.profile
  if (maxTools !== undefined && fitting.body.tools!.length > maxTools)
    throw fitting.refusal('tools', `This model takes at most ${maxTools} tools.`)
  if (fitting.profile.strict_tools === 'all') equaliseStrict(fitting)
  const budget = grammarBudgetOf(fitting)
  const tools = fitting.body.tools!
  const sent = tools.map((tool, index) => fitTool(fitting, tool, index, budget))
  if (sent.some((tool, index) => tool !== tools[index])) fitting.set({ tools: sent })
  fitChoice(fitting)
}

/** `allowed_tools` as the list of these tools, for models that do not know it. */
function chooseAmongAllowed(fitting: Fitting): void {
  const { tools, tool_choice: choice } = fitting.body
  if (fitting.profile.allowed_tools || !isObject(choice) || choice.type !== 'allowed_tools') return
  const { mode = 'auto', tools: allowed } = allowedToolsOf(choice)
  if (mode !== 'auto' && mode !== 'required')
    throw new GatewayError('invalid_request', '`tool_choice.allowed_tools.mode` must be `auto` or `required`.', {
      param: 'tool_choice.allowed_tools.mode',
    })
  const names = new Set((Array.isArray(allowed) ? allowed : []).map(nameOfReference))
  const kept = tools!.filter(tool => names.has(nameOf(tool)))
  if (kept.length === 0)
    throw fitting.refusal('tool_choice.allowed_tools', '`tool_choice.allowed_tools` names none of the tools.')
  fitting.set({ tools: kept, tool_choice: mode === 'required' ? 'required' : 'auto' })
  fitting.adjusted.push('tool_choice')
}

type AllowedTools = { [name: string]: unknown; mode?: unknown; tools?: unknown }

/** As chat has it, or as Responses do: without a member of that name. */
function allowedToolsOf(choice: Extract<Choice, object>): AllowedTools {
  return isObject(choice.allowed_tools) ? choice.allowed_tools : choice
}

function nameOfReference(reference: unknown): unknown {
  if (!isObject(reference)) return undefined
  const named = reference[asText(reference.type)]
  return isObject(named) ? named.name : reference.name
}

function nameOf(tool: Tool): string {
  return tool.type === 'function' ? tool.function.name : tool.custom.name
}

/** What the answer's schema leaves of what may be compiled; null: there is no limit. */
function grammarBudgetOf({ profile, body: { response_format: format } }: Fitting): GrammarBudget | null {
  const budget = profile.grammar_limits ? new GrammarBudget(profile.grammar_limits) : null
  if (format?.type === 'json_schema') budget?.add(format.json_schema.schema, 'answer')
  return budget
}

function fitTool(fitting: Fitting, tool: Tool, index: number, budget: GrammarBudget | null): Tool {
  const name = sentToolName(nameOf(tool), fitting.profile)
  const isCustom = tool.type === 'custom' && !fitting.profile.custom_tools
  if (tool.type === 'custom') {
    if (name !== tool.custom.name || isCustom) fitting.rename(name, { name: tool.custom.name, type: 'custom' })
    if (isCustom) return functionOf(tool, name)
    return name === tool.custom.name ? tool : { ...tool, custom: { ...tool.custom, name } }
  }
  const given = fitStrict(fitting, tool.function, index, budget)
  const { parameters, keys } = fitParameters(fitting, given, index)
  if (name !== given.name || keys) fitting.rename(name, { name: given.name, type: 'function', ...(keys && { keys }) })
  if (given === tool.function && name === given.name && parameters === given.parameters) return tool
  return { ...tool, function: { ...given, name, ...(parameters !== undefined && { parameters }) } }
}

function functionOf({ type: _type, custom, ...others }: CustomTool, name: string): FunctionTool {
  const { description, format } = custom as { description?: unknown; format?: unknown }
  return { ...others, ...functionOfCustom(name, description, isObject(format) ? format.grammar : undefined) }
}

/**
 * Sends no tool as strict where others are not: "Tools with mixed values for 'strict' are not allowed"
 * (RooCodeInc/Roo-Code#10334, mpfaffenberger/code_puppy#368).
 */
function equaliseStrict(fitting: Fitting): void {
  const tools = fitting.body.tools!
  const isStrictTool = (tool: Tool) =>
    tool.type === 'function' && tool.function.strict === true && mayBeStrict(tool.function, fitting.profile)
  if (!tools.some(isStrictTool) || tools.every(isStrictTool)) return
  const sent = tools.map((tool, index): Tool => {
    if (tool.type !== 'function' || tool.function.strict == null) return tool
    if (tool.function.strict) fitting.dropped.push(`tools.${index}.function.strict`)
    return { ...tool, function: { ...tool.function, strict: undefined } }
  })
  fitting.set({ tools: sent })
}

/** Bedrock answers "tools.0.custom.strict: Extra inputs are not permitted" (https://github.com/maximhq/bifrost/issues/5592). */
function fitStrict(
  fitting: Fitting,
  given: FunctionTool['function'],
  index: number,
  budget: GrammarBudget | null,
): FunctionTool['function'] {
  if (given.strict == null) return given
  const { strict_tools: takesStrict } = fitting.profile
  const fits = !given.strict || mayBeStrict(given, fitting.profile)
  if (takesStrict && fits && (!given.strict || !budget || budget.add(given.parameters, 'tool'))) return given
  if (given.strict) fitting.dropped.push(`tools.${index}.function.strict`)
  return { ...given, strict: undefined }
}

/** Whether a provider can hold the calls of a tool to its schema. */
function mayBeStrict({ parameters }: FunctionTool['function'], profile: ChatProfile): boolean {
  if (profile.strict_schemas !== 'any' && !isStrict(parameters)) return false
  if (!parameters || profile.schema !== 'closed_objects') return true
  return !fitParametersSchema(parameters, profile, true, new SchemaGrowth()).losesAnswers
}

type SentParameters = { parameters: FunctionTool['function']['parameters']; keys: PropertyKeys | null }

function fitParameters(
  { profile, adjusted, structuredBy, body, schemaGrowth }: Fitting,
  { parameters, strict }: FunctionTool['function'],
  index: number,
): SentParameters {
  // Anthropic requires a schema of strict tools.
  const given =
    parameters ?? (strict && profile.schema === 'closed_objects' ? { type: 'object', properties: {} } : null)
  if (!given) return { parameters, keys: null }
  const fitted = fitParametersSchema(given, profile, strict === true, schemaGrowth)
  // The tool whose arguments are the answer follows those of the client.
  const isAnswer = structuredBy === 'tool' && index === body.tools!.length - 1
  if (fitted.losesMeaning) adjusted.push(isAnswer ? 'response_format' : `tools.${index}.function.parameters`)
  const { schema, keys } = withSentKeys(fitted.schema, profile)
  return { parameters: schema, keys }
}

function fitChoice(fitting: Fitting): void {
  const { tool_choice: choice } = fitting.body
  // Copilot CLI asks Gemini so.
  if (choice === 'validated' && !fitting.profile.validated_tools) {
    fitting.adjust('tool_choice', 'auto')
    return
  }
  const isForced = choice === 'required' || (isObject(choice) && choice.type !== 'allowed_tools')
  const off = isForced ? switchOff(fitting) : null
  if (off) fitting.set(off)
  else if (isForced && !canForce(fitting)) {
    const name = nameOfReference(choice)
    fitting.adjust('tool_choice', 'auto')
    fitting.instruct(
      typeof name === 'string'
        ? `Call the tool \`${sentToolName(name, fitting.profile)}\` now, before anything else.`
        : 'Call at least one of the tools now, before anything else.',
    )
    return
  }
  const renamed = isObject(choice) ? renamedChoice(choice, fitting) : choice
  if (renamed !== choice) fitting.set({ tool_choice: renamed })
}

function canForce({ profile, body, target }: Fitting): boolean {
  if (!profile.forced_tools || profile.forced_tools_while_reasoning) return profile.forced_tools
  return !canReason(target.deployment) || turnsThinkingOff(body, target)
}

/**
 * The members that turn thinking off, for a tool that can be forced only without: a forced call is what the caller asks for. Null
 * where it can be forced anyway, where there is no such switch, and where the caller asks for thinking as well.
 */
function switchOff(fitting: Fitting): Partial<ChatRequest> | null {
  const { profile, body } = fitting
  if (!profile.forced_tools || canForce(fitting) || asksForThinking(body)) return null
  return fitting.thinkingOff
}

function renamedChoice(choice: Extract<Choice, object>, { profile, tools }: Fitting): Choice {
  if (choice.type === 'allowed_tools' && tools.size > 0) return renamedAllowedTools(choice, profile)
  const given = nameOfReference(choice)
  if (typeof given !== 'string' || (choice.type !== 'function' && choice.type !== 'custom')) return choice
  const name = sentToolName(given, profile)
  if (name === given && !tools.has(name)) return choice
  const type = profile.custom_tools ? choice.type : 'function'
  return { type, [type]: { name } } as Choice
}

function renamedAllowedTools(choice: Extract<Choice, object>, profile: ChatProfile): Choice {
  const given = allowedToolsOf(choice)
  if (!Array.isArray(given.tools)) return choice
  const tools = given.tools.map((reference: unknown) => {
    const name = nameOfReference(reference)
    if (typeof name !== 'string' || !isObject(reference)) return reference
    const sent = sentToolName(name, profile)
    const type = asText(reference.type)
    return isObject(reference[type]) ? { ...reference, [type]: { name: sent } } : { ...reference, name: sent }
  })
  return { ...choice, ...(given === choice ? { tools } : { allowed_tools: { ...given, tools } }) } as Choice
}

type Tools = ReadonlyMap<string, ClientTool>
type DeltaCall = NonNullable<ChatDelta['tool_calls']>[number]

/** The answer with the client's names of its tools, and calls of custom tools as such. */
export function withClientTools(answer: ChatCompletion, tools: Tools): ChatCompletion {
  const choices = answer.choices.map(choice => {
    const { tool_calls: calls } = choice.message
    if (!calls?.length) return choice
    return { ...choice, message: { ...choice.message, tool_calls: calls.map(call => clientCall(call, tools)) } }
  })
  return { ...answer, choices }
}

function clientCall(call: ToolCall, tools: Tools): ToolCall {
  const tool = tools.get(call.function?.name)
  if (!tool) return call
  if (tool.type === 'function') return { ...call, function: clientFunction(call.function, tool) }
  const { function: called, ...others } = call
  const custom = { name: tool.name, input: customInput(called.arguments) }
  return { ...others, type: 'custom', custom } as unknown as ToolCall
}

function clientFunction(called: ToolCall['function'], { name, keys }: ClientTool): ToolCall['function'] {
  return { ...called, name, ...(keys && { arguments: clientArguments(called.arguments, keys) }) }
}

/** A call in a stream whose arguments are collected, as they can be read only once they are complete. */
type OpenCall = { choice: number; index: number; tool: ClientTool; id: string | undefined; text: string }

/** Restores the client's tools in a stream. */
export class ClientToolsDecoder extends ChatHoldingDecoder {
  readonly #tools: Tools
  /** By choice and index of the call. */
  readonly #open = new Map<string, OpenCall>()
  /** Calls whose name may go on. */
  readonly #begun = new Map<string, DeltaCall>()
  #last: ChatChunk | null = null

  constructor(decoder: StreamDecoder<ChatChunk>, tools: Tools) {
    super(decoder)
    this.#tools = tools
  }

  push(event: SseEvent, part?: number): ChatChunk[] {
    const chunks = this.receive(event, part).map(chunk => this.#restore(chunk))
    if (chunks.length > 0) this.#last = chunks.at(-1)!
    return this.done && this.#open.size > 0 ? [...chunks, ...this.#endOpen()] : chunks
  }

  /** The calls that are still open when a stream ends without a finish reason. */
  #endOpen(): ChatChunk[] {
    const { usage: _usage, ...head } = this.#last!
    const choices = [...new Set([...this.#open.values()].map(({ choice }) => choice))]
    return choices.map(index => {
      const delta = { tool_calls: this.#endCalls(index) }
      return { ...head, choices: [{ index, delta, finish_reason: null }] } as ChatChunk
    })
  }

  #restore(chunk: ChatChunk): ChatChunk {
    if (!chunk.choices.some(({ delta, finish_reason }) => delta.tool_calls?.length || finish_reason)) return chunk
    const choices = chunk.choices.map(choice => {
      const { delta, finish_reason: reason, index } = choice
      const calls = (delta.tool_calls ?? []).flatMap(call => this.#restoreCall(index, call))
      if (reason) calls.push(...this.#endCalls(index))
      if (calls.length === 0 && !delta.tool_calls) return choice
      const { tool_calls: _calls, ...others } = delta
      return { ...choice, delta: calls.length > 0 ? { ...others, tool_calls: calls } : others }
    })
    return { ...chunk, choices }
  }

  #restoreCall(choice: number, delta: DeltaCall): DeltaCall[] {
    const key = `${choice} ${delta.index}`
    const open = this.#open.get(key)
    if (open) {
      open.text += delta.function?.arguments ?? ''
      return []
    }
    const call = this.#withWholeName(key, delta)
    if (!call) return []
    const tool = call.function?.name ? this.#tools.get(call.function.name) : undefined
    if (!tool) return [call]
    if (tool.type === 'function' && !tool.keys) return [{ ...call, function: { ...call.function, name: tool.name } }]
    const { index, id, function: called } = call
    this.#open.set(key, { choice, index, tool, id, text: called.arguments ?? '' })
    return []
  }

  /** Some servers send a name in pieces: null until the name of a restored tool is whole. */
  #withWholeName(key: string, delta: DeltaCall): DeltaCall | null {
    const begun = this.#begun.get(key)
    const piece = delta.function?.name
    if (!begun && (!piece || this.#tools.has(piece))) return delta
    const name = `${begun?.function?.name ?? ''}${piece ?? ''}`
    const text = `${begun?.function?.arguments ?? ''}${delta.function?.arguments ?? ''}`
    const call = { ...begun, ...delta, function: { ...begun?.function, ...delta.function, name, arguments: text } }
    const isPart = piece && !this.#tools.has(name) && [...this.#tools.keys()].some(one => one.startsWith(name))
    if (isPart) this.#begun.set(key, call as DeltaCall)
    else this.#begun.delete(key)
    return isPart ? null : (call as DeltaCall)
  }

  #endCalls(choice: number): DeltaCall[] {
    const ended: DeltaCall[] = []
    for (const [key, call] of this.#begun) {
      if (!key.startsWith(`${choice} `)) continue
      this.#begun.delete(key)
      ended.push(call)
    }
    for (const [key, { choice: ofChoice, index, tool, id, text }] of this.#open) {
      if (ofChoice !== choice) continue
      this.#open.delete(key)
      const head = { index, ...(id !== undefined && { id }) }
      if (tool.type === 'function') {
        const called = clientFunction({ name: tool.name, arguments: text }, tool)
        ended.push({ ...head, type: 'function', function: called })
        continue
      }
      const custom = { name: tool.name, input: customInput(text) }
      ended.push({ ...head, type: 'custom', custom } as unknown as DeltaCall)
    }
    return ended
  }
}
