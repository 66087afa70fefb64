import type { Usage } from '../../../base/usage.ts'

/** Usual text of results, per token. */
const bytesPerToken = 4

/**
 * Estimates what a stream's prompt costs that broke off: after each round of tools that the provider runs, it reads the
 * prompt again with all results so far, and counts that only at the end of the stream.
 */
export class ToolReadings {
  #resultTokens = 0
  /** Whether results came since the last reading. */
  #hasResults = false
  #count = 0
  #tokens = 0

  /** Takes a block that begins, and the length of its event. */
  add(type: string, bytes: number): void {
    if (/_tool_result$/.test(type)) {
      this.#resultTokens += Math.ceil(bytes / bytesPerToken)
      this.#hasResults = true
    } else if (this.#hasResults) {
      this.#hasResults = false
      this.#count++
      this.#tokens += this.#resultTokens
    }
  }

  /** The usage of the first reading, with all further ones; what was written to a cache is read from there. */
  addTo(first: Usage): Usage {
    // The last results are being read.
    const last = this.#hasResults ? 1 : 0
    const count = this.#count + last
    if (count === 0) return first
    const { cached_tokens: cached = 0, cache_write_tokens: written = 0 } = first.prompt_tokens_details ?? {}
    const prompt_tokens = first.prompt_tokens * (1 + count) + this.#tokens + last * this.#resultTokens
    return {
      ...first,
      prompt_tokens,
      total_tokens: prompt_tokens + first.completion_tokens,
      prompt_tokens_details: {
        ...first.prompt_tokens_details,
        cached_tokens: cached + count * (cached + written),
      },
    }
  }
}
