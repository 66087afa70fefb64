/** Token usage as OpenAI writes it: `prompt_tokens` includes cached, cache-write, audio and image tokens, `completion_tokens` includes reasoning, audio and image ones. */
export type Usage = {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  prompt_tokens_details?: {
    cached_tokens?: number
    cache_write_tokens?: number
    audio_tokens?: number
    cached_audio_tokens?: number
    image_tokens?: number
  }
  completion_tokens_details?: { reasoning_tokens?: number; audio_tokens?: number; image_tokens?: number }
  /** Ours: USD charged. */
  cost?: number
  /** What the provider says that the call cost it, in nano-dollars. Never shown. */
  provider_cost_nano?: number
  /** What the provider says it did beside tokens, and the catalog has no price for. Never shown. */
  unpriced?: string[]
  /** Of a call that took several requests: what each of them used, as prices depend on the length of a prompt. Never shown. */
  parts?: Usage[]
  /** Ours: counted by our tokenizer because the upstream gave none. */
  estimated?: boolean
}

/** A usage as a client sees it: embeddings have no completion. */
export type ShownUsage = Omit<Usage, 'completion_tokens' | 'provider_cost_nano' | 'unpriced' | 'parts'> & {
  completion_tokens?: number
}

/** What the requests of one call used together. */
export function sumUsages(parts: readonly [Usage, ...Usage[]]): Usage {
  const unpriced = [...new Set(parts.flatMap(part => part.unpriced ?? []))]
  const costs = parts.flatMap(part => part.provider_cost_nano ?? [])
  return {
    prompt_tokens: sum(parts.map(part => part.prompt_tokens)),
    completion_tokens: sum(parts.map(part => part.completion_tokens)),
    total_tokens: sum(parts.map(part => part.total_tokens)),
    ...sumDetails('prompt_tokens_details', parts),
    ...sumDetails('completion_tokens_details', parts),
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
