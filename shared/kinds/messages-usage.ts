import { isCount, type ShownUsage, type Usage } from '../base/usage.ts'
import type { FinishReason } from './chat.ts'
import type { MessagesUsage } from './messages.ts'

const finishReasons: ReadonlyMap<string, FinishReason> = new Map([
  ['max_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_use', 'tool_calls'],
  ['refusal', 'content_filter'],
])

/** The finish reason of chat completions for a `stop_reason`, as the request log has it; `stop` for all others. */
export function finishReasonOf(stopReason: string): FinishReason {
  return finishReasons.get(stopReason) ?? 'stop'
}

/** The usage of a Message in our shape; undefined if it lacks a count. */
export function usageOfMessages(usage: Partial<MessagesUsage>): Usage | undefined {
  const { input_tokens: input, output_tokens: output, cache_creation: writes } = usage
  if (!isCount(input) || !isCount(output)) return undefined
  const cached = isCount(usage.cache_read_input_tokens) ? usage.cache_read_input_tokens : 0
  const written = isCount(usage.cache_creation_input_tokens) ? usage.cache_creation_input_tokens : 0
  const prompt = input + cached + written
  return {
    prompt_tokens: prompt,
    completion_tokens: output,
    total_tokens: prompt + output,
    ...((cached > 0 || written > 0) && {
      prompt_tokens_details: {
        cached_tokens: cached,
        cache_write_tokens: written,
        ...(writes && { cache_write_1h_tokens: writes.ephemeral_1h_input_tokens }),
      },
    }),
  }
}

/**
 * The usage as Anthropic counts it: `input_tokens` has neither the tokens read from a cache nor those written to one.
 * The three add up to the prompt. Zeros where the provider reported none.
 */
export function messagesUsage(usage: ShownUsage | null | undefined): MessagesUsage {
  const { prompt_tokens: prompt = 0, completion_tokens: output = 0 } = usage ?? {}
  const details = usage?.prompt_tokens_details ?? {}
  const read = Math.min(details.cached_tokens ?? 0, prompt)
  const written = Math.min(details.cache_write_tokens ?? 0, prompt - read)
  const written1h = Math.min(details.cache_write_1h_tokens ?? 0, written)
  const thinking = usage?.completion_tokens_details?.reasoning_tokens
  return {
    input_tokens: prompt - read - written,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: read,
    cache_creation: { ephemeral_5m_input_tokens: written - written1h, ephemeral_1h_input_tokens: written1h },
    output_tokens: output,
    ...(thinking !== undefined && { output_tokens_details: { thinking_tokens: Math.min(thinking, output) } }),
  }
}
