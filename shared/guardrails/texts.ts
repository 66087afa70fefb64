import type { DirectKind } from '../kinds/index.ts'
import { emptyEnvelope } from '../kinds/reasoning.ts'
import type { TextForm } from './text-guard.ts'

// The texts of requests and answers of every dialect. Every string is one, except those that are known to be none: what is
// added to a dialect later is checked as well.

/** Who wrote a text of a request; `tool`: the result of a call. */
export type TextRole = 'system' | 'user' | 'assistant' | 'tool'

/** Where a text is. `isContent`: in the conversation, not in a setting or the definition of a tool. */
export type Place = TextForm & { path: string; role: TextRole; isContent: boolean }

/** Members that name, link or encode, or that the provider verifies: no text is in them. */
const noTexts = new Set([
  ...['model', 'role', 'type', 'object', 'id', 'name', 'call_id', 'callId', 'tool_call_id', 'tool_use_id', 'item_id'],
  ...['previous_response_id', 'conversation', 'response_id', 'container', 'namespace', 'server_label', 'alt'],
  ...[
    'file_id',
    'file_url',
    'fileUri',
    'file_data',
    'image_url',
    'url',
    'uri',
    'data',
    'b64_json',
    'partial_image_b64',
  ],
  ...['media_type', 'mimeType', 'mime_type', 'format', 'detail', 'embedding', 'encoding_format', 'obfuscation'],
  ...['signature', 'thoughtSignature', 'thought_signature', 'encrypted_content', 'encrypted_index', 'encrypted_stdout'],
  ...[
    'status',
    'phase',
    'finish_reason',
    'finishReason',
    'stop_reason',
    'service_tier',
    'system_fingerprint',
    'provider',
  ],
  ...['modelVersion', 'responseId', 'created_at', 'cache_control', 'prompt_cache_key', 'session_id'],
])
/** Objects of the caller or the model, in which every member is text, and so is its name. */
const freeMembers = new Set([
  'args',
  'arguments',
  'response',
  'input',
  'parameters',
  'input_schema',
  'schema',
  'metadata',
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

type Walk = { role: TextRole; isContent: boolean; isFree: boolean; isSealed: boolean }
/** Returns what replaces a text. */
export type Visit = (text: string, place: Place) => string

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
    const segment = isFree && !plainName.test(name) ? `#${index}` : name
    const place = path === '' ? segment : `${path}.${segment}`
    if (inner && isFree) {
      const shown = visit(name, { ...inner, path: `${path}.#${index} (name)`, isContent: false, isJson: false })
      if (shown !== name) (renamed ??= new Map()).set(name, shown)
    }
    const value = object[name]
    if (value === null || (typeof value !== 'string' && typeof value !== 'object')) continue
    if (!isFree && noTexts.has(name) && !isHeldText(value, name) && !isTextDocument(object, name)) continue
    const at = inner ?? rootOf(name)
    const free = isFree || (freeMembers.has(name) && walk !== null && !Array.isArray(value))
    const next = { ...at, isFree: free, ...(name === 'functionResponse' && { role: 'tool' as const }) }
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

/** The names in free objects that paths may show: others, such as an address that is a key, are told by their position. */
const plainName = /^[A-Za-z_][A-Za-z_-]{0,39}$/

/** Whether a member is the text of a document: https://docs.claude.com/en/api/messages (`PlainTextSource`). */
function isTextDocument({ type }: Record<string, unknown>, name: string): boolean {
  return name === 'data' && type === 'text'
}

/** Members of both meanings: an object or a list of them has texts, a string has none. */
function isHeldText(value: unknown, name: string): boolean {
  return typeof value === 'object' && (name === 'format' || name === 'container' || name === 'conversation')
}

function mapValue(value: unknown, path: string, walk: Walk, name: string, visit: Visit): unknown {
  if (typeof value === 'string') {
    const { role, isContent, isFree, isSealed } = walk
    // The arguments of a call are JSON in a string.
    const isJson = name === 'arguments' || name === 'partial_json'
    return value === '' || (!isFree && isFile(value))
      ? value
      : visit(value, { path, role, isContent, isSealed, isJson })
  }
  if (typeof value !== 'object' || value === null) return value
  if (!Array.isArray(value)) return mapObject(value as Record<string, unknown>, path, walk, visit)
  let copy: unknown[] | null = null
  for (const [i, item] of value.entries()) {
    if (item === null || (typeof item !== 'string' && typeof item !== 'object')) continue
    const replaced = mapValue(item, `${path}.${i}`, walk, name, visit)
    if (replaced === item) continue
    copy ??= [...value]
    copy[i] = replaced
  }
  return copy ?? value
}

function rootOf(name: string): Walk {
  const role = systemMembers.has(name) ? 'system' : 'user'
  return { role, isContent: contents.has(name), isFree: false, isSealed: false }
}

/** What holds within an object of a body. */
function within(object: Record<string, unknown>, walk: Walk): Walk {
  if (walk.isFree) return walk
  const { role, type } = object
  const own = (typeof role === 'string' && roles[role]) || walk.role
  const isResult = typeof type === 'string' && toolResult.test(type)
  return { ...walk, role: isResult ? 'tool' : own, isSealed: walk.isSealed || isSealed(object) }
}

/** Reasoning that its provider verifies when it comes back. The gateway cannot: it may be anybody's text. */
function isSealed({ type, signature }: Record<string, unknown>): boolean {
  return type === 'thinking' && typeof signature === 'string' && signature !== ''
}

/** Whether a text is nothing but an encoded file: what only begins as one is read. */
function isFile(text: string): boolean {
  return text.startsWith('data:') && /^data:[\w/+.;=-]{0,200};base64,[\w+/=-]*$/.test(text)
}

/** Whether a request has texts as numbers of tokens, which cannot be read. */
export function hasTokenInput(kind: DirectKind, body: object): boolean {
  if (kind !== 'embedding' && kind !== 'completion') return false
  const { input, prompt } = body as { input?: unknown; prompt?: unknown }
  const asked = kind === 'embedding' ? input : prompt
  const isTokens = (one: unknown) => typeof one === 'number' || (Array.isArray(one) && one.some(Number.isFinite))
  return Array.isArray(asked) && asked.some(isTokens)
}
