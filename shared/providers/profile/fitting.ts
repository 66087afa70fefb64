import { GatewayError } from '../../base/errors.ts'
import { isObject } from '../../base/is-object.ts'
import { type ChatProfile, type Effort, effortOfBudget, efforts } from '../../catalog/chat-profile.ts'
import { canReason, profileOf, servesResponses } from '../../catalog/traits.ts'
import type { ChatRequest } from '../../kinds/chat.ts'
import type { StructuredBy, Target } from '../contract.ts'
import { fieldBeyondResponses } from '../toolkit/chat-over-responses/request.ts'
import { SchemaGrowth } from './merge-alternatives.ts'
import type { PropertyKeys } from './property-keys.ts'

/**
 * How the client named a tool that is sent under another name, or as a function although it is a custom tool; `keys`: of its
 * parameters, where others are sent.
 */
export type ClientTool = { name: string; type: 'function' | 'custom'; keys?: PropertyKeys }

/** The tools of almost every request. */
export const noTools: ReadonlyMap<string, ClientTool> = new Map()

/** A chat request on its way to a target whose profile it has to fit; the body is copied at the first change. */
export class Fitting {
  readonly target: Target
  readonly profile: ChatProfile
  /** Whether the request is sent in the Responses format. */
  readonly byResponses: boolean
  /** The fields that were left out, and those that were changed, as far as the caller may notice it. */
  readonly dropped: string[] = []
  readonly adjusted: string[] = []
  /** The client's tools by the names under which they are sent, as far as they differ. */
  tools: ReadonlyMap<string, ClientTool> = noTools
  /** How the format of the answer is asked for, where the target has no such format. */
  structuredBy: Exclude<StructuredBy, 'native'> | null = null
  #schemaGrowth: SchemaGrowth | null = null
  body: ChatRequest

  constructor(body: ChatRequest, target: Target, byResponses = false) {
    this.body = body
    this.target = target
    this.byResponses = byResponses
    this.profile = profileOf(target)
  }

  get schemaGrowth(): SchemaGrowth {
    this.#schemaGrowth ??= new SchemaGrowth()
    return this.#schemaGrowth
  }

  /** The members that turn the model's thinking off; null where it does not think, or has no such switch. */
  get thinkingOff(): Partial<ChatRequest> | null {
    const { deployment } = this.target
    if (!canReason(deployment) || deployment.traits?.thinking_off === false) return null
    switch (this.profile.effort_off) {
      case 'thinking':
        return { thinking: { type: 'disabled' } } as Partial<ChatRequest>
      case 'enable_thinking':
        return { enable_thinking: false } as Partial<ChatRequest>
      default:
        return null
    }
  }

  /** Remembers how the client named a tool. */
  rename(sentName: string, tool: ClientTool): void {
    if (this.tools === noTools) this.tools = new Map()
    ;(this.tools as Map<string, ClientTool>).set(sentName, tool)
  }

  /** Sets members of the request; an undefined one is not sent. */
  set(changes: Partial<ChatRequest>): void {
    this.body = { ...this.body, ...changes } as ChatRequest
  }

  /** Leaves a field out, and names it. */
  drop(field: string): void {
    this.set({ [field]: undefined })
    this.dropped.push(field)
  }

  /** Changes a field, and names it. */
  adjust(field: string, value: unknown): void {
    this.set({ [field]: value })
    this.adjusted.push(field)
  }

  /** The 400 for what cannot be left out without changing the answer. */
  refusal(param: string, message: string): GatewayError {
    return new GatewayError('unsupported_capability', message, { param })
  }

  /** Adds a line to the system prompt. */
  instruct(line: string): void {
    this.set({ messages: withSystemLine(this.body.messages, line) })
  }
}

/** Adds a line to the system prompt. */
export function withSystemLine(messages: ChatRequest['messages'], line: string): ChatRequest['messages'] {
  const [first, ...others] = messages
  if (first?.role !== 'system' && first?.role !== 'developer') return [{ role: 'system', content: line }, ...messages]
  const { content } = first
  const added =
    typeof content === 'string' ? `${content}\n\n${line}` : [...content, { type: 'text' as const, text: line }]
  return [{ ...first, content: added }, ...others]
}

/** Custom tools are no functions, and taken beside reasoning (LiteLLM 1.110.2, `responses_api_bridge_check`). */
export function hasFunctionTools({ tools }: ChatRequest): boolean {
  return tools?.some(({ type }) => type === 'function') === true
}

/**
 * Whether a chat request is served by the target's Responses: one with functions, for a model that reasons beside functions
 * there only. What they have no word for stays in chat.
 */
export function goesByResponses(body: ChatRequest, target: Target): boolean {
  const { tools_effort: toolsEffort, chat_tools: takesTools } = profileOf(target)
  if ((takesTools && toolsEffort === undefined) || !hasFunctionTools(body) || !servesResponses(target)) return false
  return !(takesTools && body.reasoning_effort === toolsEffort) && fieldBeyondResponses(body) === null
}

/** Where a row names none, of a model that has the setting. */
const usualEfforts: readonly Effort[] = ['none', 'minimal', 'low', 'medium', 'high']

/** The efforts of a model; null where it has no such setting. */
export function effortsOf({ profile, target: { deployment, model } }: Fitting): readonly (Effort | 'default')[] | null {
  if (profile.efforts) return profile.efforts
  return canReason(deployment) && model.supported_parameters.includes('reasoning_effort') ? usualEfforts : null
}

/** The accepted effort that is nearest to the wanted one, the lower of two; `none` only if it is wanted. */
export function nearestEffort(
  wanted: Effort | 'default',
  accepted: readonly (Effort | 'default')[],
): Effort | 'default' | undefined {
  if (accepted.includes(wanted)) return wanted
  if (wanted === 'default') return undefined
  if (accepted.includes('default')) return 'default'
  const distance = (one: Effort | 'default') => Math.abs(efforts.indexOf(one as Effort) - efforts.indexOf(wanted))
  const candidates = wanted === 'none' ? accepted : accepted.filter(one => one !== 'none')
  // Efforts are listed from the least to the greatest.
  return candidates.toSorted((a, b) => distance(a) - distance(b))[0]
}

type Json = Record<string, unknown>

/**
 * The fields that ask for reasoning in other words than `reasoning_effort`: OpenRouter's `reasoning`, with a budget or `enabled`
 * (openrouter.ai/docs/guides/best-practices/reasoning-tokens), and Anthropic's `thinking`, which Anthropic's and LiteLLM's
 * OpenAI-compatible APIs take (BerriAI/litellm#8971).
 */
const otherWords = [
  ['reasoning', effortOfReasoning],
  ['thinking', effortOfThinking],
] as const

/**
 * Says by `reasoning_effort` how much a request wants reasoned, if the target does not get the field that says so. A field that says more
 * stays, and is named as left out.
 */
export function nameEffort(fitting: Fitting): void {
  const body: Json = fitting.body
  if (body.reasoning_effort != null || (body.reasoning ?? body.thinking) == null) return
  for (const [field, effortOf] of otherWords) {
    const value = body[field]
    if (!isObject(value) || takes(fitting.target, field)) continue
    const effort = effortOf(value)
    if (effort === null) continue
    fitting.set({ [field]: undefined, reasoning_effort: effort })
    return
  }
}

/** Whether a target is sent a field as it is: models with a thinking of their own, and strict servers, are not. */
function takes({ provider, deployment }: Target, field: string): boolean {
  if (deployment.traits?.thinking !== undefined) return false
  return provider.quirks?.request_fields?.includes(field) ?? true
}

function effortOfReasoning({ max_tokens: budget, enabled, ...more }: Json): Effort | null {
  if (Object.values(more).some(value => value != null)) return null
  if (typeof budget === 'number') return budget > 0 ? effortOfBudget(budget) : 'none'
  return enabled === true ? 'medium' : null
}

/**
 * Adaptive thinking is at the effort `high` unless another is named (LangChain's ChatAnthropic, `reasoning_effort`;
 * earendil-works/pi#2397).
 */
function effortOfThinking({ type, budget_tokens: budget }: Json): Effort | null {
  switch (type) {
    case 'enabled':
      return typeof budget === 'number' ? effortOfBudget(budget) : null
    case 'adaptive':
      return 'high'
    case 'disabled':
      return 'none'
    default:
      return null
  }
}
