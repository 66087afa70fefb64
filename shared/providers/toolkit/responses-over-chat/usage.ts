import type { Usage } from '../../../base/usage.ts'
import type { ResponsesUsage } from '../../../kinds/responses-answer.ts'

/** The usage as Responses state it: details are parts of their totals. */
export function responsesUsage(usage: Usage): ResponsesUsage {
  const { prompt_tokens: input_tokens, completion_tokens: output_tokens } = usage
  const { cached_tokens = 0, cache_write_tokens = 0 } = usage.prompt_tokens_details ?? {}
  const cached = Math.min(cached_tokens, input_tokens)
  const { reasoning_tokens = 0 } = usage.completion_tokens_details ?? {}
  return {
    input_tokens,
    input_tokens_details: {
      cached_tokens: cached,
      cache_write_tokens: Math.min(cache_write_tokens, input_tokens - cached),
    },
    output_tokens,
    output_tokens_details: { reasoning_tokens: Math.min(reasoning_tokens, output_tokens) },
    total_tokens: input_tokens + output_tokens,
  }
}
