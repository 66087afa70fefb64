import { isCount, type ShownUsage, type Usage } from '../base/usage.ts'
import type { FinishReason } from './chat.ts'
import type { ResponsesObject, ResponsesUsage } from './responses-answer.ts'

/** The items by which a model calls a tool of its client. */
const callTypes: ReadonlySet<unknown> = new Set(['function_call', 'custom_tool_call', 'tool_search_call'])

/** The finish reason of chat completions for an ended response, as the request log has it. */
export function finishReasonOfResponse(response: Pick<ResponsesObject, 'incomplete_details' | 'output'>): FinishReason {
  const reason = response.incomplete_details?.reason
  if (reason === 'content_filter') return 'content_filter'
  if (reason != null) return 'length'
  return response.output.some(({ type }) => callTypes.has(type)) ? 'tool_calls' : 'stop'
}

/** The usage of a response in our shape; undefined if it lacks a count. */
export function usageOfResponses(usage: Partial<ResponsesUsage> | null | undefined): Usage | undefined {
  const { input_tokens: input, output_tokens: output } = usage ?? {}
  if (!isCount(input) || !isCount(output)) return undefined
  const { cached_tokens = 0, cache_write_tokens = 0 } = usage?.input_tokens_details ?? {}
  const { reasoning_tokens = 0 } = usage?.output_tokens_details ?? {}
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    ...((cached_tokens > 0 || cache_write_tokens > 0) && {
      prompt_tokens_details: { cached_tokens, cache_write_tokens },
    }),
    ...(reasoning_tokens > 0 && { completion_tokens_details: { reasoning_tokens } }),
  }
}

/** The usage as Responses state it: details are parts of their totals. */
export function responsesUsage(usage: ShownUsage): ResponsesUsage {
  const { prompt_tokens: input_tokens, completion_tokens: output_tokens = 0 } = usage
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

/** The texts of an item: what the model wrote, for counting. */
export function itemTexts(item: object): string[] {
  const { type, content, summary, name, arguments: written, input } = item as Record<string, unknown>
  const parts = [content, summary].flatMap(list => (Array.isArray(list) ? list : []))
  const ofCall = [name, typeof written === 'object' ? JSON.stringify(written) : written, input]
  const texts = [...parts.flatMap(part => [part?.text, part?.refusal]), ...(callTypes.has(type) ? ofCall : [])]
  return texts.filter(text => typeof text === 'string' && text !== '')
}
