import { isRawNumber } from '../base/exact-numbers.ts'
import type { DirectKind } from '../kinds/index.ts'
import { emptyEnvelope } from '../kinds/reasoning.ts'
import { base64In, readTextFile } from './text-file.ts'
import type { TextForm } from './text-guard.ts'

// The texts of requests and answers of every dialect. Every string is one, and in arguments every long number, except those that
// are known to be none, and have the form of that: what is added to a dialect later, or written where no text belongs, is checked
// as well. A file in base64 is one if its bytes are text.

/** Who wrote a text of a request; `tool`: the result of a call. */
type TextRole = 'system' | 'user' | 'assistant' | 'tool'

/**
 * Where a text is. `isContent`: in the conversation, not in a setting or the definition of a tool. `isToken`: it has the form
 * of the name, the id or the code that is expected there.
 */
export type Place = TextForm & { path: string; role: TextRole; isContent: boolean; isToken: boolean }

/**
 * Members that name, identify or encode. A caller can write any text there: it is none only as long as it has the form of a
 * name, an id or a code.
 */
const tokenMembers = new Set([
  ...['model', 'role', 'type', 'object', 'id', 'name', 'call_id', 'callId', 'tool_call_id', 'tool_use_id', 'item_id'],
  ...['previous_response_id', 'conversation', 'response_id', 'container', 'namespace', 'server_label', 'alt', 'ttl'],
  ...['file_id', 'media_type', 'mimeType', 'mime_type', 'format', 'detail', 'encoding_format', 'obfuscation'],
  ...['signature', 'thoughtSignature', 'thought_signature', 'encrypted_content', 'encrypted_index', 'encrypted_stdout'],
  ...['status', 'phase', 'finish_reason', 'finishReason', 'stop_reason', 'service_tier', 'system_fingerprint'],
  ...['provider', 'modelVersion', 'responseId', 'created_at', 'prompt_cache_key', 'session_id'],
])
/** Members that link or hold a file: the same, but for URLs and base64. */
const fileMembers = new Set([
  ...['file_url', 'fileUri', 'image_url', 'url', 'uri'],
  ...['file_data', 'data', 'b64_json', 'partial_image_b64', 'embedding'],
])
/** Objects of the caller or the model, in which every member is text, and so is its name. */
const freeMembers = new Set([
  ...['args', 'arguments', 'response', 'input', 'parameters', 'input_schema', 'schema', 'metadata', 'output_schema'],
  ...['responseSchema', 'responseJsonSchema', 'parametersJsonSchema'],
])
/** The members of a body that have the conversation. */
const contents = new Set([
  ...['messages', 'system', 'input', 'instructions', 'prompt', 'suffix', 'contents', 'content', 'systemInstruction'],
  ...['system_instruction', 'prediction', 'requests', 'choices', 'output', 'candidates'],
])
const systemMembers = new Set(['system', 'instructions', 'systemInstruction', 'system_instruction'])
const roles: Record<string, TextRole> = {
  system: 'system',
  developer: 'system',
  assistant: 'assistant',
  model: 'assistant',
  tool: 'tool',
  function: 'tool',
}
const toolResult = /^(?:tool_result|mcp_tool_result|.*_call_output|.*_tool_result)$/

/** `isProse`: the value of a member is text in any form. `mediaType`: what an object says of the file in it, if it does. */
type Walk = {
  role: TextRole
  isContent: boolean
  isFree: boolean
  isSealed: boolean
  isProse: boolean
  mediaType: string
}
/** Returns what replaces a text. */
type Visit = (text: string, place: Place) => string

/**
 * A request body or an answer with its texts replaced; what has none that changed is the same object. The signature of
 * reasoning does not hold for another text, and a provider refuses it: the gateway's own takes its place, so that the
 * reasoning is treated as that of another model. An adapter of the API that signs leaves it out, others may show it.
 */
export function mapTexts<T extends object>(body: T, visit: Visit): T {
  return mapObject(body as Record<string, unknown>, '', null, visit) as T
}

function mapObject(object: Record<string, unknown>, path: string, walk: Walk | null, visit: Visit): object {
  const inner = walk && within(object, walk)
  const isFree = inner?.isFree ?? false
  let copy: Record<string, unknown> | null = null
  let renamed: Map<string, string> | null = null
  let index = -1
  for (const name in object) {
    index++
    const isPlain = plainName.test(name)
    const segment = isPlain ? name : `#${index}`
    const place = path === '' ? segment : `${path}.${segment}`
    if (inner && (isFree || !isPlain)) {
      const shown = visit(name, {
        ...inner,
        path: `${path}.#${index} (name)`,
        isContent: false,
        isJson: false,
        isToken: !isFree && !noToken.test(name),
      })
      if (shown !== name) (renamed ??= new Map()).set(name, shown)
    }
    const value = object[name]
    if (value === null || !isRead(value)) continue
    const at = inner ?? rootOf(name)
    const free = isFree || (freeMembers.has(name) && (walk !== null || name === 'metadata') && !Array.isArray(value))
    const isProse = free || !(tokenMembers.has(name) || fileMembers.has(name)) || isProseIn(object, name)
    const next = { ...at, isFree: free, isProse, ...(name === 'functionResponse' && { role: 'tool' as const }) }
    const replaced = mapValue(value, place, next, name, visit)
    if (replaced === value) continue
    copy ??= { ...object }
    copy[name] = replaced
  }
  if (copy && !isFree && isSealed(object)) copy.signature = emptyEnvelope
  const mapped = copy ?? object
  if (!renamed) return mapped
  return Object.fromEntries(Object.entries(mapped).map(([name, value]) => [renamed.get(name) ?? name, value]))
}

/** The names that paths may show: others, such as an address that is a key, are told by their position. */
const plainName = /^[A-Za-z_][A-Za-z_-]{0,39}$/

/**
 * Whether a member that is no text in other objects is one here: the name of who speaks, and the text of a document
 * (`PlainTextSource`, https://docs.claude.com/en/api/messages).
 */
function isProseIn(object: Record<string, unknown>, name: string): boolean {
  return (name === 'name' && 'role' in object) || (name === 'data' && object.type === 'text')
}

function mapValue(value: unknown, path: string, walk: Walk, name: string, visit: Visit): unknown {
  if (typeof value === 'string') {
    const { role, isContent, isFree, isSealed, isProse } = walk
    // The arguments of a call are JSON in a string.
    const isJson = name === 'arguments' || name === 'partial_json'
    if (value === '') return value
    const isFileMember = !isProse && fileMembers.has(name)
    const isWhole = !isFree && isFile(value)
    const base64 = isFileMember && !isWhole ? base64In(value) : null
    const file = isWhole || base64 !== null ? readTextFile(value, walk.mediaType) : null
    if (file) {
      const at = { path: `${path} (file)`, role, isContent, isSealed, isJson: false, isToken: false }
      const shown = visit(file.text, at)
      if (shown !== file.text) return file.encode(shown)
    }
    if (isWhole) return value
    const isToken = !isProse && !noToken.test(value)
    const isWrapped = base64 !== null && !shortLine.test(base64)
    if (isFileMember && !isToken && (isWrapped || link.test(value))) return value
    return visit(value, { path, role, isContent, isSealed, isJson, isToken })
  }
  if (typeof value === 'number' || isRawNumber(value))
    return walk.isFree ? visitNumber(value, { ...walk, path }, visit) : value
  if (typeof value !== 'object' || value === null) return value
  if (!Array.isArray(value)) return mapObject(value as Record<string, unknown>, path, walk, visit)
  let copy: unknown[] | null = null
  for (const [i, item] of value.entries()) {
    if (item === null || !isRead(item)) continue
    const replaced = mapValue(item, `${path}.${i}`, walk, name, visit)
    if (replaced === item) continue
    copy ??= [...value]
    copy[i] = replaced
  }
  return copy ?? value
}

/** The shortest number that may be a value: a payment card's has thirteen digits. */
const minNumber = 1e12

function isRead(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'object' || (typeof value === 'number' && value >= minNumber)
}

/** A number, or the text that replaces it. */
function visitNumber(value: unknown, { role, isContent, isSealed, path }: Walk & { path: string }, visit: Visit) {
  const text = JSON.stringify(value)
  const shown = visit(text, { path, role, isContent, isSealed, isJson: false, isToken: false })
  return shown === text ? value : shown
}

function rootOf(name: string): Walk {
  const role = systemMembers.has(name) ? 'system' : 'user'
  return { role, isContent: contents.has(name), isFree: false, isSealed: false, isProse: true, mediaType: '' }
}

/** What holds within an object of a body. */
function within(object: Record<string, unknown>, walk: Walk): Walk {
  if (walk.isFree) return walk
  const { role, type } = object
  const own = (typeof role === 'string' && roles[role]) || walk.role
  const isResult = typeof type === 'string' && toolResult.test(type)
  const mediaType = object.mimeType ?? object.mime_type ?? object.media_type
  return {
    ...walk,
    role: isResult ? 'tool' : own,
    isSealed: walk.isSealed || isSealed(object),
    mediaType: typeof mediaType === 'string' ? mediaType : '',
  }
}

/** Reasoning that its provider verifies when it comes back. The gateway cannot: it may be anybody's text. */
function isSealed({ type, signature }: Record<string, unknown>): boolean {
  return type === 'thinking' && typeof signature === 'string' && signature !== ''
}

/** Whether a text is nothing but an encoded file: what only begins as one is read. */
function isFile(text: string): boolean {
  return text.startsWith('data:') && /^data:[\w/+.;=-]{0,200};base64,[\w+/=-]*$/.test(text)
}

/** What no name, id or code has, in base64 neither. */
const noToken = /[^\w+/=.:~-]/
const link = /^(?:https?|gs|s3):\/\/\S+$/i

/** A word that others follow, as no line of an encoder is. */
const shortLine = /(?:^|\s)\S{1,31}\s+\S/

/** Whether a request has texts as numbers of tokens, which cannot be read. */
export function hasTokenInput(kind: DirectKind, body: object): boolean {
  if (kind !== 'embedding' && kind !== 'completion') return false
  const { input, prompt } = body as { input?: unknown; prompt?: unknown }
  const asked = kind === 'embedding' ? input : prompt
  const isTokens = (one: unknown) => typeof one === 'number' || (Array.isArray(one) && one.some(Number.isFinite))
  return Array.isArray(asked) && asked.some(isTokens)
}
