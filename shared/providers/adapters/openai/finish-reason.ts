import type { FinishReason } from '../../../kinds/chat.ts'
import { ProviderError } from '../../provider-error.ts'

/** Names of servers beside OpenAI's own. */
const finishReasons = new Map<unknown, FinishReason>([
  ['length', 'length'],
  // Mistral (docs.mistral.ai/api), proxies before Anthropic and Gemini, and Z.ai (docs.z.ai/api-reference).
  ['model_length', 'length'],
  ['max_tokens', 'length'],
  ['MAX_TOKENS', 'length'],
  ['max_output_tokens', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['tool_calls', 'tool_calls'],
  ['tool_use', 'tool_calls'],
  ['function_call', 'function_call'],
  ['content_filter', 'content_filter'],
  ['SAFETY', 'content_filter'],
  ['refusal', 'content_filter'],
  // Z.ai, as `network_error` below.
  ['sensitive', 'content_filter'],
])

/**
 * A provider's finish reason as one of ours (an unknown one maps to `stop`). Throws a ProviderError when it reports a
 * failure.
 */
export function finishReason(value: unknown): FinishReason {
  if (value === 'error' || value === 'network_error')
    throw new ProviderError('server_error', 'The provider failed while it generated the answer.')
  if (value === 'insufficient_system_resource') {
    throw new ProviderError('overloaded', 'The provider ran out of capacity while it generated the answer.')
  }
  return finishReasons.get(value) ?? 'stop'
}

/** The calls in an answer: of tools, or of a function in the older form. */
export type Called = 'tool_calls' | 'function_call' | null

/**
 * The finish reason of an answer with these calls. Servers end calls with `stop` (Ollama, vLLM, OpenVINO, Google's
 * OpenAI endpoint), by which clients end their loop. OpenAI itself does so only for the one function that `tool_choice`
 * names: there it stays.
 */
export function finishWith(reason: FinishReason, called: Called, isForced: boolean): FinishReason {
  return reason === 'stop' && called && !isForced ? called : reason
}
