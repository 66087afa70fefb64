import { profileOf } from '../../catalog/traits.ts'
import type { ChatRequest } from '../../kinds/chat.ts'
import type { ResponsesItem, ResponsesRequest } from '../../kinds/responses.ts'
import type { ResponsesTool } from '../../kinds/responses-tools.ts'
import type { Target } from '../contract.ts'
import { CallIds } from './call-ids.ts'
import { fitSettings } from './fit-chat.ts'
import { fitParametersSchema } from './fit-schema.ts'
import { Fitting, SchemaGrowth } from './fitting.ts'

type Changes = Partial<Record<keyof ResponsesRequest, unknown>>
/** The members of a request that have to differ; an undefined one is not sent. */
type FittedResponses = { changes: Changes; dropped: string[]; adjusted: string[] }

/** Settings of Responses and their names in chat. */
const settings = {
  temperature: 'temperature',
  top_p: 'top_p',
  top_logprobs: 'top_logprobs',
  max_output_tokens: 'max_completion_tokens',
  user: 'user',
  safety_identifier: 'safety_identifier',
  prompt_cache_key: 'prompt_cache_key',
} as const
const responsesNames = new Map<string, string>([
  ...Object.entries(settings).map(([name, chatName]): [string, string] => [chatName, name]),
  ['reasoning_effort', 'reasoning.effort'],
])

/** Fits the settings of a Responses request to its target by the rules for chat. */
export function fitResponses(body: ResponsesRequest, target: Target): FittedResponses {
  const chat: Record<string, unknown> = { model: body.model, messages: [] }
  for (const [name, chatName] of Object.entries(settings)) {
    const value = body[name as keyof typeof settings]
    if (value != null) chat[chatName] = value
  }
  if (body.reasoning?.effort != null) chat.reasoning_effort = body.reasoning.effort
  const fitting = new Fitting(chat as ChatRequest, target, true)
  fitSettings(fitting)
  const changes: Changes = {}
  const fitted: Record<string, unknown> = fitting.body
  if (fitted !== chat) {
    for (const [name, chatName] of Object.entries(settings))
      if (fitted[chatName] !== chat[chatName]) changes[name] = fitted[chatName]
    if (fitted.reasoning_effort !== chat.reasoning_effort)
      changes.reasoning = { ...body.reasoning, effort: fitted.reasoning_effort }
  }
  const namesOf = (names: readonly string[]) => names.map(name => responsesNames.get(name) ?? name)
  return { changes, dropped: namesOf(fitting.dropped), adjusted: namesOf(fitting.adjusted) }
}

/** The items with ids of calls in the form that the target accepts; the same list if all have it. */
export function withFittedCallIds(input: readonly ResponsesItem[], target: Target): readonly ResponsesItem[] {
  const ids = new CallIds(profileOf(target))
  let sent: ResponsesItem[] | null = null
  for (const [index, item] of input.entries()) {
    const { call_id: id } = item as { call_id?: unknown }
    const fitted = typeof id === 'string' ? ids.ofResult(id) : id
    if (fitted !== id) {
      sent ??= [...input]
      sent[index] = { ...item, call_id: fitted } as ResponsesItem
    }
  }
  return sent ?? input
}

/** A function with parameters that the target accepts, the same tool if they are; `losesMeaning`: a rule is told in a text. */
export function withFittedParameters(
  tool: ResponsesTool,
  target: Target,
): { tool: ResponsesTool; losesMeaning: boolean } {
  if (tool.type !== 'function') return { tool, losesMeaning: false }
  // Providers of Responses are not sent definitions in place of references: each schema may have the growth of a request.
  const { schema, losesMeaning } = fitParametersSchema(
    tool.parameters ?? {},
    profileOf(target),
    tool.strict === true,
    new SchemaGrowth(),
  )
  return { tool: schema === tool.parameters ? tool : { ...tool, parameters: schema }, losesMeaning }
}
