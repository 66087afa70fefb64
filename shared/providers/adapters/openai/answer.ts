import { isObject } from '../../../base/is-object.ts'
import { statedTierOf } from '../../../base/service-tier.ts'
import { createdAt, isUnixTime } from '../../../base/time.ts'
import type { Usage } from '../../../base/usage.ts'
import type { ProviderRow } from '../../../catalog/schema.ts'
import type { FinishReason } from '../../../kinds/chat.ts'
import { ProviderError } from '../../provider-error.ts'
import type { Json } from '../../toolkit/json-fields.ts'

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
  const { obfuscation: padding, provider: route, error } = json
  const isPlain = (padding ?? route ?? error) === undefined && (usage || json.usage === undefined)
  const head = isPlain ? { ...json } : withoutOwn(json)
  if (typeof json.id !== 'string') head.id = ''
  if (!isUnixTime(json.created)) head.created = createdAt(json.created)
  if (typeof json.model !== 'string') head.model = ''
  if (usage) head.usage = usage
  return head
}

function usageOf(json: Json, provider: ProviderRow) {
  const ownUsage = normaliseUsage(usageIn(json))
  const extras = ownUsage ? extrasOf(json, provider) : noExtras
  return extras === noExtras ? ownUsage : { ...ownUsage, ...extras }
}

function withoutOwn({ usage: _usage, obfuscation: _padding, provider: _route, error: _none, ...others }: Json): Json {
  return others
}

/** Whether an answer or an event reports an error: servers that have none may say so by an empty one. */
export function reportsError({ error }: Json): boolean {
  return isObject(error) ? Object.keys(error).length > 0 : Boolean(error)
}

/** Whether a member is a text, or absent. */
export function isOptionalText(value: unknown): boolean {
  return value === undefined || value === null || typeof value === 'string'
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

/** `abort` is vLLM's of an answer that its server stopped, for a restart or to make room (vllm-project/vllm#57082). */
const failures = new Set<unknown>(['error', 'network_error', 'network-error', 'abort'])

/** Gemini's of a call that it could not read, through OpenRouter, where the other reason is `error`, and proxies (BerriAI/litellm#23366). */
const malformedCall = /^malformed_function_call$/i

/**
 * A provider's finish reason as one of ours (an unknown one maps to `stop`). Throws a ProviderError when it reports a
 * failure, of the server or of what its model wrote. OpenRouter says `stop` of an answer that the server behind it broke off, whose own reason is beside it
 * (earendil-works/pi#8511).
 */
export function finishReason({ finish_reason: value, native_finish_reason: native }: Json): FinishReason {
  for (const reason of [native, value]) {
    if (typeof reason === 'string' && malformedCall.test(reason) && value !== 'tool_calls')
      throw new ProviderError('model_fault', 'The model wrote a call that cannot be used.', {
        modelFault: { code: 'tool_use_failed', generation: null },
      })
    if (failures.has(reason))
      throw new ProviderError('server_error', 'The provider failed while it generated the answer.')
    if (reason === 'insufficient_system_resource')
      throw new ProviderError('overloaded', 'The provider ran out of capacity while it generated the answer.')
  }
  return finishReasons.get(value) ?? 'stop'
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

/** A token count: a finite number, never negative; undefined for anything else. */
export function count(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? Math.ceil(value) : undefined
}

/** The named counts of a details object, each capped at the total they belong to; undefined when it names none. */
function details<K extends string>(
  json: unknown,
  names: readonly K[],
  total: number,
): { [P in K]?: number } | undefined {
  if (!isObject(json)) return undefined
  let parts: { [P in K]?: number } | undefined
  for (const name of names) {
    const tokens = count(json[name])
    if (tokens === undefined) continue
    parts ??= {}
    parts[name] = Math.min(tokens, total)
  }
  return parts
}

/**
 * The `usage` object of a response or chunk. Groq's streams have it in `x_groq` (console.groq.com/docs/api-reference),
 * Moonshot's in the last choice (platform.moonshot.ai/docs/api/chat).
 */
export function usageIn({ usage, x_groq: groq, choices }: Json): Json | undefined {
  if (isObject(usage)) return usage
  if (isObject(groq) && isObject(groq.usage)) return groq.usage
  const choice: unknown = Array.isArray(choices) ? choices.find(one => isObject(one) && isObject(one.usage)) : undefined
  return isObject(choice) ? (choice.usage as Json) : undefined
}

const promptParts = [
  'cached_tokens',
  'cache_write_tokens',
  'audio_tokens',
  'cached_audio_tokens',
  'image_tokens',
] as const
const completionParts = ['reasoning_tokens', 'audio_tokens', 'image_tokens'] as const

/**
 * Converts an upstream's `usage` object, in tokens. A missing side is derived from the total; undefined if that is
 * impossible, so that the caller counts. `extrasOf` reads the provider's stated cost.
 */
export function normaliseUsage(json: unknown): Usage | undefined {
  if (!isObject(json)) return undefined
  const total = count(json.total_tokens)
  const givenPrompt = count(json.prompt_tokens)
  const givenCompletion = count(json.completion_tokens)
  const prompt = givenPrompt ?? rest(total, givenCompletion)
  let completion = givenCompletion ?? rest(total, givenPrompt)
  if (prompt === undefined || completion === undefined) return undefined

  // xAI counts reasoning outside `completion_tokens`, OpenAI inside: only the total distinguishes them.
  const reasoning = isObject(json.completion_tokens_details)
    ? count(json.completion_tokens_details.reasoning_tokens)
    : 0
  if (reasoning && total === prompt + completion + reasoning) completion += reasoning
  // Google's OpenAI endpoint itemises no thoughts and counts them in the total only.
  const unlisted =
    reasoning === undefined || !isObject(json.completion_tokens_details) ? rest(total, prompt + completion) : 0
  if (unlisted) completion += unlisted

  const usage: Usage = { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  const promptDetails = details(json.prompt_tokens_details, promptParts, prompt)
  const completionDetails = details(json.completion_tokens_details, completionParts, completion)
  if (promptDetails) usage.prompt_tokens_details = promptDetails
  if (completionDetails) usage.completion_tokens_details = completionDetails
  if (unlisted) usage.completion_tokens_details = { ...completionDetails, reasoning_tokens: unlisted }

  // Names of cache hits at DeepSeek, and at Moonshot and Together (top level of `usage`).
  const cacheHits = count(json.prompt_cache_hit_tokens) ?? count(json.cached_tokens)
  if (cacheHits !== undefined && promptDetails?.cached_tokens === undefined) {
    usage.prompt_tokens_details = { ...promptDetails, cached_tokens: Math.min(cacheHits, prompt) }
  }
  return usage
}

/** Sanity limit: no single call costs nearly as much. */
const maxStatedUsd = 10_000
const nanoPerUsd = 1e9
/** xAI counts in ticks of 1e-10 dollars. */
const ticksPerUsd = 1e10

/** The provider's stated cost of a call, in nano-dollars: the field of `usage` that its quirk `cost_field` names. */
function statedCostNano(usage: Json, { quirks }: ProviderRow): number | undefined {
  const field = quirks?.cost_field
  if (field === undefined) return undefined
  const value = usage[field]
  // Perplexity states an object of its parts and their total.
  const statedCost = amount(isObject(value) ? value.total_cost : value)
  if (statedCost === undefined) return undefined
  const usd = field === 'cost_in_usd_ticks' ? statedCost / ticksPerUsd : statedCost
  // With the operator's own key at the underlying provider, `cost` covers only the forwarding fee.
  const providerCost =
    usage.is_byok === true && isObject(usage.cost_details) && usage.cost_details.upstream_inference_cost
  const totalUsd = usd + (amount(providerCost) ?? 0)
  return totalUsd <= maxStatedUsd ? Math.round(totalUsd * nanoPerUsd) : undefined
}

function amount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined
}

/** Counters in `usage` of work billed separately, at xAI and OpenRouter. */
const paidWork = ['num_sources_used', 'num_server_side_tools_used', 'server_tool_use', 'server_side_tool_usage_details']

type Extras = Pick<Usage, 'provider_cost_nano' | 'service_tier' | 'unpriced'>
/** The common case: a response without extras. */
const noExtras: Extras = Object.freeze({})

/** What the cost of a response or chunk depends on beside its tokens: the stated cost, the tier, work without a catalog price. */
export function extrasOf(json: Json, provider: ProviderRow): Extras {
  const { service_tier: stated } = json
  // As almost always.
  const tier = stated === 'default' ? 'standard' : statedTierOf(stated)
  const usage = usageIn(json)
  if (!usage) return noExtras
  const cost = statedCostNano(usage, provider)
  let unpriced: string[] | undefined
  for (const name of paidWork) {
    if (!isUsed(usage[name])) continue
    unpriced ??= []
    unpriced.push(name)
  }
  if (cost === undefined && unpriced === undefined && tier === undefined) return noExtras
  return {
    ...(cost !== undefined && { provider_cost_nano: cost }),
    ...(tier && { service_tier: tier }),
    ...(unpriced && { unpriced }),
  }
}

function isUsed(counter: unknown): boolean {
  if (isObject(counter)) return Object.values(counter).some(isUsed)
  return typeof counter === 'number' && counter > 0
}

function rest(total: number | undefined, part: number | undefined): number | undefined {
  return total === undefined || part === undefined ? undefined : Math.max(0, total - part)
}
