import type { ServiceTier } from './service-tier.ts'

/**
 * Token usage in OpenAI's shape: `prompt_tokens` includes cached, cache-write, audio and image tokens,
 * `completion_tokens` includes reasoning, audio and image tokens.
 */
export type Usage = {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  prompt_tokens_details?: {
    cached_tokens?: number
    cache_write_tokens?: number
    /** The part of `cache_write_tokens` written to a one-hour cache, which is priced separately. */
    cache_write_1h_tokens?: number
    audio_tokens?: number
    cached_audio_tokens?: number
    image_tokens?: number
  }
  completion_tokens_details?: { reasoning_tokens?: number; audio_tokens?: number; image_tokens?: number }
  /** Extension: USD charged. */
  cost?: number
  /** Extension: USD that the provider's cache saved, as OpenRouter names it; negative where writing cost more. */
  cache_discount?: number
  /** The provider's own cost of the call, in nano-dollars, if it reports one: that is what is charged. Never shown. */
  provider_cost_nano?: number
  /** Searches of the web by the provider's own tool, which are priced apart from their tokens. Not shown in answers. */
  web_searches?: number
  /** The tier that the call was served at, if it is known: prices differ. Shown unless it is the standard one. */
  service_tier?: ServiceTier | 'standard'
  /** Billable operations beside tokens that the provider reports and the catalog has no price for. Never shown. */
  unpriced?: string[]
  /** For a call of several requests: the usage of each, as prices depend on the length of a prompt. Never shown. */
  parts?: Usage[]
  /** Extension: counted by the gateway's tokenizer because the upstream reported none. */
  estimated?: boolean
}

/** Usage as clients see it: embeddings have no completion. */
export type ShownUsage = Omit<
  Usage,
  'completion_tokens' | 'provider_cost_nano' | 'web_searches' | 'unpriced' | 'parts'
> & {
  completion_tokens?: number
  /** Set for a call with an own provider key, as OpenRouter shows it. */
  is_byok?: true
  cost_details?: { upstream_inference_cost: number }
}

/**
 * No request has more tokens of a kind, whatever its provider states; the columns of the request log hold twice as
 * many.
 */
export const maxTokens = 1_000_000_000
/** No request has more searches of the web. */
const maxSearches = 10_000

/**
 * What a provider states it has used, if that can be true: whole numbers up to `max`. Details are at most what they are
 * part of; the same object if they are. Null when it cannot be true, so that the gateway counts.
 */
export function plausibleUsage(usage: Usage, max = { prompt: maxTokens, completion: maxTokens }): Usage | null {
  const { prompt_tokens: prompt, completion_tokens: completion, web_searches: searches = 0, parts = [] } = usage
  if (!isCount(prompt, Math.min(max.prompt, maxTokens))) return null
  if (!isCount(completion, Math.min(max.completion, maxTokens)) || !isCount(searches, maxSearches)) return null
  const { prompt_tokens_details: input, completion_tokens_details: output } = usage
  const soundParts = parts.map(part => plausibleUsage(part, max))
  if (soundParts.includes(null)) return null
  const areSound = parts.every((part, i) => part === soundParts[i])
  if (areParts(input, prompt) && areParts(output, completion) && areSound) return usage
  return {
    ...usage,
    ...(input && { prompt_tokens_details: partsWithin(input, prompt) }),
    ...(output && { completion_tokens_details: partsWithin(output, completion) }),
    ...(parts.length > 0 && { parts: soundParts as Usage[] }),
  }
}

const namesOfCounts = /tokens?$|TokenCount$/

/** Whether each number of tokens in what a provider has written as its usage can be one. */
export function statesCounts(written: unknown): boolean {
  if (typeof written !== 'object' || written === null) return true
  return Object.entries(written).every(([name, value]) =>
    typeof value === 'number' && namesOfCounts.test(name) ? isCount(value, maxTokens) : statesCounts(value),
  )
}

/** Whether a value is a whole number from 0 to `max`. */
export function isCount(value: unknown, max = Number.MAX_SAFE_INTEGER): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= max
}

function areParts(details: object | undefined, whole: number): boolean {
  for (const count of Object.values(details ?? {})) if (count !== undefined && !isCount(count, whole)) return false
  return true
}

/** Details in which what is more than the whole is the whole, and what is no count is left out. */
function partsWithin(details: Record<string, unknown>, whole: number): Record<string, number> {
  const counts = Object.entries(details).filter(([, count]) => isCount(count, Number.MAX_SAFE_INTEGER))
  return Object.fromEntries(counts.map(([name, count]) => [name, Math.min(count as number, whole)]))
}

/** Sums the usage of all requests of one call. */
export function sumUsages(parts: readonly [Usage, ...Usage[]]): Usage {
  const unpriced = [...new Set(parts.flatMap(part => part.unpriced ?? []))]
  const costs = parts.flatMap(part => part.provider_cost_nano ?? [])
  const searches = sum(parts.map(part => part.web_searches ?? 0))
  return {
    prompt_tokens: sum(parts.map(part => part.prompt_tokens)),
    completion_tokens: sum(parts.map(part => part.completion_tokens)),
    total_tokens: sum(parts.map(part => part.total_tokens)),
    ...sumDetails('prompt_tokens_details', parts),
    ...sumDetails('completion_tokens_details', parts),
    ...(searches > 0 && { web_searches: searches }),
    ...(costs.length > 0 && { provider_cost_nano: sum(costs) }),
    ...(unpriced.length > 0 && { unpriced }),
    parts: [...parts],
  }
}

function sumDetails(name: 'prompt_tokens_details' | 'completion_tokens_details', parts: readonly Usage[]) {
  const details = parts.flatMap(part => Object.entries(part[name] ?? {}))
  if (details.length === 0) return null
  const byClass = Map.groupBy(details, ([field]) => field)
  const sums = [...byClass].map(([field, counts]) => [field, sum(counts.map(([, count]) => count ?? 0))])
  return { [name]: Object.fromEntries(sums) }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
