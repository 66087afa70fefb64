import { newId } from '../../../base/ids.ts'
import { isObject } from '../../../base/is-object.ts'
import { encodedOnce, isWithoutArguments } from '../../toolkit/call-arguments.ts'
import { calledName } from '../../toolkit/called-name.ts'
import { invalidResponse, type Json } from '../../toolkit/json-fields.ts'

/** Puts right what servers leave out of the calls of an answer; OpenAI's own calls stay as they are. */

/**
 * The arguments of a call as JSON text. A call without arguments has none at all, null, '' or an empty list at some servers, an object
 * at others (OpenRouter before Bedrock and Vertex, Ollama, vLLM), and others encode it twice: clients parse what they get.
 */
export function argumentsText(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value ?? null)
  return isWithoutArguments(text) ? '{}' : encodedOnce(text)
}

/**
 * The name of a call that a model has made without one. Clients answer it as any call of a tool that they do not have, and the conversation
 * goes on; no server takes a call without a name back (trpc-group/trpc-agent-go#2400, NousResearch/hermes-agent#55922,
 * continuedev/continue#11645).
 */
export const unnamedTool = 'unnamed_tool'

/** More calls than any model makes at once. Each is compared with the others, here and where an answer is translated. */
const maxCalls = 2_048

/** Throws a ProviderError `invalid_response` for more calls than an answer can have. */
export function assertCallCount(count: number): void {
  if (count > maxCalls) throw invalidResponse(`it has more than ${maxCalls} calls`)
}

/**
 * The calls of a complete message: each with `id`, `type` and arguments. Mistral's have no `type`, those of Google's
 * OpenAI endpoint the id ''. The same list where nothing is missing; entries that are no call are left out.
 */
export function completeCalls(calls: readonly unknown[]): readonly unknown[] {
  assertCallCount(calls.length)
  const ids = new Set<unknown>()
  const completed = calls.filter(isObject).map(call => {
    const complete = completeCall(call, ids)
    ids.add(complete.id)
    return complete
  })
  const isSame = completed.length === calls.length && completed.every((call, position) => call === calls[position])
  return isSame ? calls : completed
}

function completeCall(call: Json, usedIds: ReadonlySet<unknown>): Json {
  const id = identifies(call.id) && !usedIds.has(call.id) ? call.id : newId('call')
  const type = isGiven(call.type) ? call.type : typeOf(call)
  const named = call.id === id && call.type === type ? call : { ...call, id, type }
  return type === 'function' ? withArguments(named) : named
}

function withArguments(call: Json): Json {
  const fn = isObject(call.function) ? completeFunction(call.function) : { name: unnamedTool, arguments: '{}' }
  return fn === call.function ? call : { ...call, function: fn }
}

/** A function's name and arguments, as in a call and in the older `function_call`. */
export function completeFunction(fn: Json): Json {
  const text = argumentsText(fn.arguments)
  const name = (typeof fn.name === 'string' && calledName(fn.name)) || unnamedTool
  return fn.arguments === text && fn.name === name ? fn : { ...fn, name, arguments: text }
}

export function typeOf(call: Json): 'function' | 'custom' {
  return isObject(call.custom) ? 'custom' : 'function'
}

/**
 * Whether an id tells a call from those of other answers. Grok and GPT at Amazon Bedrock number the calls of each answer from `call_0`
 * on (LiteLLM 1.110.2, `is_positional_tool_call_id`): clients then give a call the result of an earlier one (BerriAI/litellm#30426).
 */
export function identifies(id: unknown): id is string {
  return isGiven(id) && !/^call_\d{1,4}$/.test(id)
}

export function isGiven(text: unknown): text is string {
  return typeof text === 'string' && text !== ''
}
