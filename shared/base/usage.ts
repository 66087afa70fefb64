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
  /** Ours: counted by our tokenizer because the upstream gave none. */
  estimated?: boolean
}

/** A usage as a client sees it: embeddings have no completion. */
export type ShownUsage = Omit<Usage, 'completion_tokens' | 'provider_cost_nano' | 'unpriced'> & {
  completion_tokens?: number
}
