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
  /** The provider's own cost of the call, in nano-dollars, if it reports one. Never shown. */
  provider_cost_nano?: number
  /** Searches of the web by the provider's own tool, which are priced apart from their tokens. Not shown in answers. */
  web_searches?: number
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
