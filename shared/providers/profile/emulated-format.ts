import { isObject } from '../../base/is-object.ts'
import { canReason, profileOf } from '../../catalog/traits.ts'
import type { ChatChunk, ChatCompletion, ChatDelta, ChatRequest, ToolCall } from '../../kinds/chat.ts'
import type { StructuredBy, Target } from '../contract.ts'
import { ChatHoldingDecoder, type SseEvent, type StreamDecoder } from '../stream-decoder.ts'
import { fitFormatSchema, isOpenRecord } from './fit-schema.ts'
import { withSystemLine } from './fitting.ts'
import { GrammarBudget } from './grammar-budget.ts'
import { JsonText } from './json-text.ts'
import { SchemaGrowth } from './merge-alternatives.ts'

/**
 * JSON answers of models that have no format for them (docs/decisions/structured-output.md). By `tool`: the model has to call
 * one tool whose parameters are the schema, and the arguments of the call are the answer. By `prompt`: the system prompt
 * asks for JSON, and what stands around it is left out of the answer.
 */

type Format = NonNullable<ChatRequest['response_format']>
type Schema = Record<string, unknown>

/** How a target answers in the format of a request; null = it needs no help: it has the format, or none is asked for. */
export function emulationOf(body: ChatRequest, target: Target): Exclude<StructuredBy, 'native'> | null {
  const { response_format: format } = body
  if (!format || format.type === 'text') return null
  if (takesFormat(target, format.type, body) && compiles(format, target)) return null
  return canForceTool(body, target) ? 'tool' : 'prompt'
}

/**
 * Whether a target compiles the schema of a format to what the schema says. Where objects are closed, a dictionary would be empty
 * (pydantic/pydantic-ai#4117).
 */
function compiles(format: Format, target: Target): boolean {
  const { grammar_limits: limits, schema: dialect } = profileOf(target)
  const schema = schemaOf(format)
  if (!schema || (!limits && dialect !== 'closed_objects')) return true
  const fitted = fitFormatSchema(schema, dialect, new SchemaGrowth())
  return !fitted.losesAnswers && (!limits || new GrammarBudget(limits).add(fitted.schema, 'answer'))
}

/** Whether a target has a format of answers itself, for a request with these tools. */
export function takesFormat(
  target: Target,
  type: 'json_object' | 'json_schema',
  { tools, stream }: { tools?: readonly unknown[] | null | undefined; stream?: boolean | null | undefined },
): boolean {
  const { supported_parameters: supported } = target.model
  const { tools_with_format: withTools, stream_with_format: withStream, schema_format: hasSchemas } = profileOf(target)
  if (tools?.length && !withTools) return false
  if (type === 'json_object') return supported.includes('response_format')
  return supported.includes('structured_outputs') && hasSchemas && (withStream || !stream)
}

/**
 * Whether one tool can be forced on a model. While they reason, many refuse that: Claude (`toolkit/claude-thinking.ts`),
 * DeepSeek (deepseek-ai/DeepSeek-V3#1376), Qwen (cloudwego/eino#994), Kimi (can1357/oh-my-pi#1077).
 */
function canForceTool({ response_format: format, tools, tool_choice: choice, ...body }: ChatRequest, target: Target) {
  const profile = profileOf(target)
  const { forced_tools: canForce, forced_tools_while_reasoning: whileReasoning } = profile
  const { max_tools: maxTools = Number.POSITIVE_INFINITY } = profile
  if (!canForce || !target.model.supported_parameters.includes('tools')) return false
  if (
    canReason(target.deployment) &&
    !(whileReasoning ? body.reasoning_effort === 'none' : turnsThinkingOff(body, target))
  )
    return false
  if (body.functions?.length || (tools?.length ?? 0) >= maxTools) return false
  // What the client itself forces is a call of its tools, not an answer.
  if (tools?.length && choice !== undefined && choice !== 'auto' && choice !== 'none') return false
  const schema = schemaOf(format)
  if (!schema || (profile.schema === 'bare_root' && isOpenRecord(schema))) return false
  return rootOf(format) === 'object'
}

/** What says in a provider's own words whether a model thinks. */
type Thinking = { thinking?: { type?: unknown } | null; enable_thinking?: unknown }

/** Whether a request turns the thinking of its model off, which some models do not allow. */
export function turnsThinkingOff(body: Pick<ChatRequest, 'reasoning_effort'>, { deployment }: Target): boolean {
  const { thinking, enable_thinking } = body as Thinking
  const isOff = body.reasoning_effort === 'none' || thinking?.type === 'disabled' || enable_thinking === false
  return isOff && deployment.traits?.thinking_off !== false
}

/** Whether a request asks its model to think. */
export function asksForThinking({ reasoning_effort: effort, ...body }: ChatRequest): boolean {
  const { thinking, enable_thinking } = body as Thinking
  return (effort != null && effort !== 'none') || thinking?.type === 'enabled' || enable_thinking === true
}

function schemaOf(format: Format | undefined): Schema | null {
  return (format?.type === 'json_schema' && format.json_schema.schema) || null
}

/**
 * What the JSON of a format is; null if its schema leaves that open, or has a text, in which nothing can be told from text
 * around it.
 */
function rootOf(format: Format | undefined): 'object' | 'array' | null {
  if (format?.type === 'json_object') return 'object'
  const { type, properties } = schemaOf(format) ?? { type: 'object' }
  if (type === 'object' || type === 'array') return type
  return type === undefined && isObject(properties) ? 'object' : null
}

/** The name of the tool whose arguments are the answer: none of the client's. */
function answerToolName({ tools }: ChatRequest): string {
  const names = new Set(tools?.map(tool => (tool.type === 'function' ? tool.function.name : tool.custom.name)))
  let name = 'json_answer'
  while (names.has(name)) name += '_'
  return name
}

/** The request without its format, which is asked for in another way. */
export function withEmulatedFormat(body: ChatRequest, by: 'tool' | 'prompt', target: Target): ChatRequest {
  return by === 'tool' ? withAnswerTool(body, target) : withFormatInPrompt(body, target)
}

function withAnswerTool(body: ChatRequest, target: Target): ChatRequest {
  const { response_format: format, tools = [], tool_choice: choice, ...others } = body
  const name = answerToolName(body)
  const { description, schema } = (format as Extract<Format, { type: 'json_schema' }>).json_schema
  const about = `Gives the answer to the user. Call it once, with the whole answer.${description ? ` ${description}` : ''}`
  const tool = { type: 'function' as const, function: { name, description: about, parameters: schema } }
  const isAlone = tools.length === 0 || choice === 'none'
  const single = target.model.supported_parameters.includes('parallel_tool_calls')
  return {
    ...others,
    tools: [...tools, tool],
    tool_choice: isAlone ? { type: 'function', function: { name } } : 'required',
    ...(single && { parallel_tool_calls: false }),
  }
}

function withFormatInPrompt({ response_format: format, ...body }: ChatRequest, target: Target): ChatRequest {
  const schema = schemaOf(format)
  const hasTools = (body.tools?.length ?? 0) > 0
  const when = hasTools ? 'When you answer rather than call a tool, answer' : 'Answer'
  const what = rootOf(format) === 'object' ? 'one JSON object' : 'one JSON value'
  const rule = schema ? ` It has to be valid against this JSON Schema:\n${JSON.stringify(schema)}` : ''
  const line = `${when} with ${what} and nothing else: no text around it and no code fence.${rule}`
  const hasMode = profileOf(target).json_mode && takesFormat(target, 'json_object', body)
  const jsonMode = hasMode && rootOf(format) === 'object'
  const messages = withSystemLine(body.messages, line)
  return { ...body, messages, ...(jsonMode && { response_format: { type: 'json_object' as const } }) }
}

/** The answer as one of a model that has the format. */
export function withJsonContent(answer: ChatCompletion, body: ChatRequest, by: 'tool' | 'prompt'): ChatCompletion {
  const isAnswer = by === 'tool' ? answerCallTest(body) : () => false
  const choices = answer.choices.map(choice => {
    const { message } = choice
    const call = message.tool_calls?.find(isAnswer)
    if (call) return withAnswerOf(choice, call)
    if (!message.content) return choice
    const content = jsonIn(message.content, rootOf(body.response_format))
    return content === message.content ? choice : { ...choice, message: { ...message, content } }
  })
  return { ...answer, choices }
}

function jsonIn(text: string, root: 'object' | 'array' | null): string {
  return root ? JsonText.of(text, root) : text
}

type Choice = ChatCompletion['choices'][number]

function withAnswerOf(choice: Choice, call: ToolCall): Choice {
  const { tool_calls: calls, ...message } = choice.message
  const others = calls!.filter(other => other.function?.name !== call.function.name)
  const answered = { ...message, content: call.function.arguments }
  if (others.length > 0) return { ...choice, message: { ...answered, tool_calls: others } }
  return { ...choice, message: answered, finish_reason: finishOf(choice.finish_reason) }
}

function finishOf<R extends string | null>(reason: R): R | 'stop' {
  return reason === 'tool_calls' ? 'stop' : reason
}

/** Whether a call is the answer. A model that has no other tool may have misspelt the name. */
function answerCallTest(body: ChatRequest): (call: { function?: { name?: string | undefined } }) => boolean {
  if (!body.tools?.length) return () => true
  const name = answerToolName(body)
  return call => call.function?.name === name
}

/** What is known of one choice of a stream. */
type Progress = {
  /** The index of the call whose arguments are the answer; null = none yet. */
  answer: number | null
  hasOtherCalls: boolean
  /** Text before it is known whether a call follows, beside whose arguments it would be no JSON. */
  held: string
  /** Leaves out what stands around the JSON; null = nothing is left out. */
  text: JsonText | null
}

/** Turns the stream of an emulated format into that of a model that has the format. */
export class JsonContentDecoder extends ChatHoldingDecoder {
  readonly #by: 'tool' | 'prompt'
  readonly #root: 'object' | 'array' | null
  readonly #isAnswer: ReturnType<typeof answerCallTest>
  readonly #choices = new Map<number, Progress>()

  constructor(decoder: StreamDecoder<ChatChunk>, body: ChatRequest, by: 'tool' | 'prompt') {
    super(decoder)
    this.#by = by
    this.#root = rootOf(body.response_format)
    this.#isAnswer = answerCallTest(body)
  }

  push(event: SseEvent, part?: number): ChatChunk[] {
    return this.receive(event, part).map(chunk => this.#read(chunk))
  }

  #read(chunk: ChatChunk): ChatChunk {
    if (chunk.choices.length === 0) return chunk
    return { ...chunk, choices: chunk.choices.map(choice => this.#readChoice(choice)) }
  }

  #readChoice(choice: ChatChunk['choices'][number]): ChatChunk['choices'][number] {
    const progress = this.#progressOf(choice.index)
    const { content, tool_calls: calls, ...delta } = choice.delta
    const others = calls?.filter(call => !this.#takes(progress, call))
    let text = this.#textOf(progress, content ?? '')
    for (const call of calls ?? []) if (call.index === progress.answer) text += call.function?.arguments ?? ''
    if (others?.length) {
      progress.hasOtherCalls = true
      text = progress.held + text
      progress.held = ''
    }
    if (choice.finish_reason) text += this.#rest(progress)
    return {
      ...choice,
      delta: { ...delta, ...withText(text, content), ...(others?.length && { tool_calls: others }) },
      finish_reason:
        progress.hasOtherCalls || progress.answer === null ? choice.finish_reason : finishOf(choice.finish_reason),
    }
  }

  #progressOf(index: number): Progress {
    let progress = this.#choices.get(index)
    if (!progress) {
      progress = { answer: null, hasOtherCalls: false, held: '', text: this.#root && new JsonText(this.#root) }
      this.#choices.set(index, progress)
    }
    return progress
  }

  /** Whether a piece of a call belongs to the answer; further calls of the same tool are left out. */
  #takes(progress: Progress, call: NonNullable<ChatDelta['tool_calls']>[number]): boolean {
    if (this.#by === 'prompt') return false
    if (call.index === progress.answer) return true
    if (call.function?.name === undefined || !this.#isAnswer(call)) return false
    progress.answer ??= call.index
    progress.held = ''
    return true
  }

  /** The text to pass on of a piece of text. */
  #textOf(progress: Progress, piece: string): string {
    if (this.#by === 'prompt') return progress.text ? progress.text.push(piece) : piece
    if (progress.answer !== null) return ''
    if (progress.hasOtherCalls) return piece
    progress.held += piece
    return ''
  }

  /** The text that is left at the end of a choice. */
  #rest(progress: Progress): string {
    if (this.#by === 'prompt') return progress.text?.end() ?? ''
    return jsonIn(progress.held, this.#root)
  }
}

/** The member of a delta with its text; absent where the provider sent none. */
function withText(text: string, sent: string | null | undefined): Pick<ChatDelta, 'content'> {
  return text !== '' || sent !== undefined ? { content: text } : {}
}
