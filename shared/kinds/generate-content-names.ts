import { GatewayError } from '../base/errors.ts'
import { isObject } from '../base/is-object.ts'

/**
 * Google's JSON takes each name in camel case and in snake case, and an object in place of a list of one (protobuf's JSON
 * mapping, https://protobuf.dev/programming-guides/json/; the first example of
 * https://ai.google.dev/gemini-api/docs/text-generation has `"system_instruction": {"parts": {"text": …}}`). The gateway reads
 * the names in camel case.
 */

/** What callers and models name: nothing in it is Google's. */
const opaque: ReadonlySet<string> = new Set([
  ...['args', 'response', 'labels', 'partMetadata', 'parametersJsonSchema', 'responseJsonSchema'],
  ...['enum', 'default', 'example', 'provider'],
])
/** Maps of schemas by the caller's names. */
const maps: ReadonlySet<string> = new Set(['properties', 'defs', '$defs'])
const lists: ReadonlySet<string> = new Set(['contents', 'parts', 'tools', 'functionDeclarations', 'requests'])
const maxDepth = 128

/** The names of an error's fields do not need more. */
const snake = /^[a-z][a-z\d]*(?:_[a-z\d]+)+$/

/** A request with names in camel case: the same object if it has no others. Throws a GatewayError 400 for a name in both forms. */
export function withCamelNames(body: unknown): unknown {
  return camelNames(body, [])
}

function camelNames(value: unknown, path: readonly (string | number)[]): unknown {
  if (path.length > maxDepth) return value
  if (Array.isArray(value)) return camelItems(value, path)
  if (!isObject(value)) return value
  let changed: Record<string, unknown> | null = null
  const isMap = maps.has(String(path.at(-1)))
  for (const name in value) {
    const known = isMap || !snake.test(name) ? name : name.replace(/_([a-z\d])/g, (_, letter) => letter.toUpperCase())
    const at = [...path, known]
    // Of two values, the provider could take the one that was not read.
    if (known !== name && known in value) throw twice(at)
    const member = value[name]
    const list = lists.has(known) && isObject(member) && !isMap ? [member] : member
    // A response that is a schema, beside the result of a function.
    const read = opaque.has(known) && !isMap ? list : camelNames(list, at)
    if (known === name && read === member) continue
    changed ??= { ...value }
    if (known !== name) delete changed[name]
    changed[known] = read
  }
  return changed ?? value
}

function camelItems(items: readonly unknown[], path: readonly (string | number)[]): unknown {
  let changed: unknown[] | null = null
  for (const [index, item] of items.entries()) {
    const read = camelNames(item, [...path, index])
    if (read === item) continue
    changed ??= [...items]
    changed[index] = read
  }
  return changed ?? items
}

function twice(path: readonly (string | number)[]): GatewayError {
  const param = path.join('.')
  return new GatewayError('invalid_request', `\`${param}\` is in the body twice: in camel case and in snake case.`, {
    param,
  })
}

const names = new Map([
  ['messages', 'contents'],
  ['max_tokens', 'generationConfig.maxOutputTokens'],
  ['max_completion_tokens', 'generationConfig.maxOutputTokens'],
  ['response_format', 'generationConfig.responseMimeType'],
  ['reasoning_effort', 'generationConfig.thinkingConfig'],
  ['tool_choice', 'toolConfig'],
  ['temperature', 'generationConfig.temperature'],
  ['top_p', 'generationConfig.topP'],
  ['top_k', 'generationConfig.topK'],
  ['n', 'generationConfig.candidateCount'],
  ['stop', 'generationConfig.stopSequences'],
  ['seed', 'generationConfig.seed'],
  ['presence_penalty', 'generationConfig.presencePenalty'],
  ['frequency_penalty', 'generationConfig.frequencyPenalty'],
  ['logprobs', 'generationConfig.responseLogprobs'],
  ['top_logprobs', 'generationConfig.logprobs'],
  ['modalities', 'generationConfig.responseModalities'],
  ['input', 'content'],
  ['dimensions', 'outputDimensionality'],
  ['task_type', 'taskType'],
  ['titles', 'title'],
])

/** The name in Google's request of a field by its path in a chat or embedding request; other paths stay as they are. */
export function nameInGemini(path: string): string {
  return names.get(path.split(/[.[]/, 1)[0]!) ?? path
}
