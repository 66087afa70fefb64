import { isObject } from '../../../base/is-object.ts'
import { statedTierOf } from '../../../base/service-tier.ts'
import type { Usage } from '../../../base/usage.ts'
import type { ProviderRow } from '../../../catalog/schema.ts'
import type { Json } from './json.ts'

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
export const noExtras: Extras = Object.freeze({})

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
