import { isObject } from '../../../base/is-object.ts'
import { unixNow } from '../../../base/time.ts'
import type { ProviderRow } from '../../../catalog/schema.ts'
import type { FinishReason } from '../../../kinds/chat.ts'
import { ProviderError } from '../../provider-error.ts'
import type { Json } from './json.ts'
import { extrasOf, noExtras, normaliseUsage, usageIn } from './usage.ts'

/**
 * What the answers of this dialect share, whole or streamed: their head, the reason why they finished, their texts. What needs no
 * change is returned as it is given.
 */

/**
 * A list with its entries mapped by `read`; the same list object if no entry changes, so that it can be relayed as
 * bytes (shared/chat/attempt.ts).
 */
export function mapUnlessSame<T>(list: unknown[], read: (entry: unknown, position: number) => T): T[] {
  const entries = list.map(read)
  return entries.every((entry, position) => entry === list[position]) ? (list as T[]) : entries
}

/**
 * A copy of a response with the fields that OpenAI's always have, converted usage, and without the provider's own
 * fields.
 */
export function normaliseHead(json: Json, provider: ProviderRow): Json {
  const usage = usageOf(json, provider)
  // Destructuring with rest is the most expensive step, and most responses have no field to omit.
  const isPlain = json.obfuscation === undefined && json.provider === undefined && (usage || json.usage === undefined)
  const head = isPlain ? { ...json } : withoutOwn(json)
  if (typeof json.id !== 'string') head.id = ''
  if (typeof json.created !== 'number') head.created = unixNow()
  if (typeof json.model !== 'string') head.model = ''
  if (usage) head.usage = usage
  return head
}

function usageOf(json: Json, provider: ProviderRow) {
  const ownUsage = normaliseUsage(usageIn(json))
  const extras = ownUsage ? extrasOf(json, provider) : noExtras
  return extras === noExtras ? ownUsage : { ...ownUsage, ...extras }
}

function withoutOwn({ usage: _usage, obfuscation: _padding, provider: _route, ...others }: Json): Json {
  return others
}

/** Names of servers beside OpenAI's own. */
const finishReasons = new Map<unknown, FinishReason>([
  ['length', 'length'],
  // Mistral (docs.mistral.ai/api), proxies before Anthropic and Gemini, and Z.ai (docs.z.ai/api-reference).
  ['model_length', 'length'],
  ['max_tokens', 'length'],
  ['MAX_TOKENS', 'length'],
  ['max_output_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_calls', 'tool_calls'],
  ['tool_use', 'tool_calls'],
  ['function_call', 'function_call'],
  ['content_filter', 'content_filter'],
  ['SAFETY', 'content_filter'],
  ['refusal', 'content_filter'],
  // Z.ai, as `network_error` below.
  ['sensitive', 'content_filter'],
])

/**
 * A provider's finish reason as one of ours (an unknown one maps to `stop`). Throws a ProviderError when it reports a
 * failure.
 */
export function finishReason(value: unknown): FinishReason {
  if (value === 'error' || value === 'network_error')
    throw new ProviderError('server_error', 'The provider failed while it generated the answer.')
  if (value === 'insufficient_system_resource') {
    throw new ProviderError('overloaded', 'The provider ran out of capacity while it generated the answer.')
  }
  return finishReasons.get(value) ?? 'stop'
}

/** The calls in an answer: of tools, or of a function in the older form. */
export type Called = 'tool_calls' | 'function_call' | null

/**
 * The finish reason of an answer with these calls. Servers end calls with `stop` (Ollama, vLLM, OpenVINO, Google's
 * OpenAI endpoint), by which clients end their loop. OpenAI itself does so only for the one function that `tool_choice`
 * names: there it stays.
 */
export function finishWith(reason: FinishReason, called: Called, isForced: boolean): FinishReason {
  return reason === 'stop' && called && !isForced ? called : reason
}

/** The content of a message as the two texts of our format. */
export type Texts = { text: string; reasoning: string }

/**
 * The texts of a content that is a list, as Mistral's models that reason give it: parts `thinking`, whose own content is
 * a list or a text, and `text` (docs.mistral.ai/capabilities/reasoning). Parts without text, such as references, say
 * nothing in our format.
 */
export function textsOf(parts: readonly unknown[]): Texts {
  const texts: Texts = { text: '', reasoning: '' }
  for (const part of parts) {
    if (typeof part === 'string') texts.text += part
    else if (isObject(part) && part.type === 'thinking') texts.reasoning += thoughtOf(part)
    else if (isObject(part) && typeof part.text === 'string') texts.text += part.text
  }
  return texts
}

function thoughtOf({ thinking, text }: Json): string {
  if (Array.isArray(thinking)) return textsOf(thinking).text
  return typeof thinking === 'string' ? thinking : typeof text === 'string' ? text : ''
}

/**
 * A message or delta whose content is text. `reasoning_content` gets the thinking of a list; the rest is as it was. The
 * same object where there is nothing to change.
 */
export function withTextContent(message: Json): Json {
  const { content } = message
  if (!Array.isArray(content)) return message
  const { text, reasoning } = textsOf(content)
  const given = typeof message.reasoning_content === 'string' ? message.reasoning_content : ''
  return { ...message, content: text, ...((given || reasoning) && { reasoning_content: given + reasoning }) }
}

/**
 * A complete message without halves of characters, at which clients in Python and databases fail. In a stream a half may
 * be followed by the other.
 */
export function withWholeCharacters(message: Json): Json {
  const { content, reasoning_content: reasoning } = message
  if (isWhole(content) && isWhole(reasoning)) return message
  return {
    ...message,
    ...(typeof content === 'string' && { content: content.toWellFormed() }),
    ...(typeof reasoning === 'string' && { reasoning_content: reasoning.toWellFormed() }),
  }
}

function isWhole(text: unknown): boolean {
  return typeof text !== 'string' || text.isWellFormed()
}
