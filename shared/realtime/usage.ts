import type { Usage } from '../base/usage.ts'

/** An empty usage. */
export function noUsage() {
  return {
    prompt_tokens: 0,
    completion_tokens: 0,
    total_tokens: 0,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0 },
    estimated: false,
  }
}

/** Adds a usage to the session's total. */
export function addUsage(sum: ReturnType<typeof noUsage>, usage: Usage): void {
  sum.prompt_tokens += usage.prompt_tokens
  sum.completion_tokens += usage.completion_tokens
  sum.total_tokens += usage.total_tokens
  sum.prompt_tokens_details.cached_tokens += usage.prompt_tokens_details?.cached_tokens ?? 0
  sum.completion_tokens_details.reasoning_tokens += usage.completion_tokens_details?.reasoning_tokens ?? 0
}
