import { asText } from '../../base/as-text.ts'
import { isObject } from '../../base/is-object.ts'
import type { ChatProfile } from '../../catalog/chat-profile.ts'
import { profileOf } from '../../catalog/traits.ts'
import type { ChatRequest } from '../../kinds/chat.ts'
import { isReference, type ResponsesItem, type ResponsesRequest } from '../../kinds/responses.ts'
import type { ResponsesTool } from '../../kinds/responses-tools.ts'
import type { Target } from '../contract.ts'
import { parseableArguments } from '../toolkit/call-arguments.ts'
import { isStrict } from '../toolkit/is-strict.ts'
import { CallIds } from './call-ids.ts'
import { fitSettings } from './fit-chat.ts'
import { fitFormatSchema, fitParametersSchema } from './fit-schema.ts'
import { Fitting } from './fitting.ts'
import { SchemaGrowth } from './merge-alternatives.ts'

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
  const nameOf = (name: string) => responsesNames.get(name) ?? name
  return { changes, dropped: fitting.dropped.map(nameOf), adjusted: fitting.adjusted.map(nameOf) }
}

/** The letters with which OpenAI's ids of items begin, by their types. */
const idPrefixes: Readonly<Record<string, string>> = {
  message: 'msg',
  function_call: 'fc',
  custom_tool_call: 'ctc',
  reasoning: 'rs',
}
const maxIdCharacters = 64

/**
 * The items of a conversation in the form that the target accepts, the same list if all have it. Nothing is stored, so that no
 * item is found by its id, and one of another provider's form only refuses the request ("Expected an ID that begins with 'fc'",
 * octos-org/octos#32, makecindy/cindy#4227). A member that is null is absent (BerriAI/litellm#13420).
 */
export function withFittedItems(input: readonly ResponsesItem[], target: Target): readonly ResponsesItem[] {
  const profile = profileOf(target)
  const ids = new CallIds(profile)
  const fitted = input.map(item => fittedItem(item, ids, profile))
  return fitted.every((item, index) => item === input[index]) ? input : fitted
}

function fittedItem(item: ResponsesItem, ids: CallIds, profile: ChatProfile): ResponsesItem {
  const given: Record<string, unknown> = item
  const changes: Record<string, unknown> = {}
  for (const name in given)
    if ((given[name] === null && !isOpenThinking(item, name)) || name === 'parsed_arguments') changes[name] = undefined
  const { call_id: callId, arguments: args, summary, content } = given
  if (Array.isArray(content) && content.some(isParsed)) changes.content = content.map(withoutParsed)
  if (typeof callId === 'string') changes.call_id = ids.ofResult(callId)
  if (!profile.any_item_ids && !isReference(item) && !isItemId(given)) changes.id = undefined
  if (item.type === 'function_call' && !profile.any_arguments) changes.arguments = parseableArguments(asText(args))
  // "Missing required parameter: 'input[7].summary'." (AAswordman/Operit#797, lidge-jun/opencodex#4673)
  if (item.type === 'reasoning' && summary == null) changes.summary = []
  const isSame = Object.keys(changes).every(name => changes[name] === given[name])
  return isSame ? item : ({ ...item, ...changes } as ResponsesItem)
}

/** Whether a member is the open thinking of an item, which Codex sends as null beside the encrypted one, and OpenAI takes. */
function isOpenThinking({ type }: ResponsesItem, name: string): boolean {
  return type === 'reasoning' && name === 'content'
}

/**
 * Whether a part has the value that OpenAI's SDKs add to a text that they parse, as they add `parsed_arguments` to calls. Neither is
 * a member of the API, which refuses it ("Unknown parameter: 'input[2].parsed_arguments'", openai/openai-python#2374, #2720).
 */
function isParsed(part: unknown): part is { parsed: unknown } {
  return isObject(part) && 'parsed' in part
}

function withoutParsed(part: unknown): unknown {
  if (!isParsed(part)) return part
  const { parsed: _parsed, ...others } = part
  return others
}

/** Whether an item has an id in OpenAI's form, or none. */
function isItemId({ type = 'message', id }: Readonly<Record<string, unknown>>): boolean {
  if (typeof id !== 'string') return true
  return id.length <= maxIdCharacters && id.startsWith(idPrefixes[asText(type)] ?? '')
}

/**
 * A function with parameters that the target accepts, the same tool if they are. `adjusted`: its members of which a rule is told in a
 * text, or which its schema does not allow.
 */
export function withFittedParameters(
  tool: ResponsesTool,
  target: Target,
): { tool: ResponsesTool; adjusted: readonly string[] } {
  if (tool.type !== 'function') return { tool, adjusted: [] }
  // Providers of Responses are not sent definitions in place of references: each schema may have the growth of a request.
  const { schema, losesMeaning } = fitParametersSchema(
    tool.parameters ?? {},
    profileOf(target),
    tool.strict === true,
    new SchemaGrowth(),
  )
  const losesStrict = cannotBeStrict(tool.strict, schema, target)
  if (schema === tool.parameters && !losesStrict) return { tool, adjusted: [] }
  return {
    tool: { ...tool, parameters: schema, ...(losesStrict && { strict: false }) },
    adjusted: namesOf({ parameters: losesMeaning, strict: losesStrict }),
  }
}

/**
 * The text options with a schema that the target accepts, the same object if it is. `adjusted`: members of the format, as those of a
 * function.
 */
export function withFittedFormat(
  text: ResponsesRequest['text'],
  target: Target,
): { text: ResponsesRequest['text']; adjusted: readonly string[] } {
  const format: Record<string, unknown> | null | undefined = text?.format
  const { schema: dialect } = profileOf(target)
  if (!isObject(format) || !isObject(format.schema) || dialect !== 'with_properties') return { text, adjusted: [] }
  const { schema, losesMeaning } = fitFormatSchema(format.schema, dialect, new SchemaGrowth())
  const losesStrict = cannotBeStrict(format.strict, schema, target)
  if (schema === format.schema && !losesStrict) return { text, adjusted: [] }
  const fitted = { ...format, schema, ...(losesStrict && { strict: false }) }
  return {
    text: { ...text, format: fitted } as ResponsesRequest['text'],
    adjusted: namesOf({ schema: losesMeaning, strict: losesStrict }),
  }
}

function cannotBeStrict(strict: unknown, schema: unknown, target: Target): boolean {
  return strict === true && profileOf(target).strict_schemas === 'closed_required' && !isStrict(schema)
}

function namesOf(changed: Record<string, boolean>): string[] {
  return Object.keys(changed).filter(name => changed[name])
}
