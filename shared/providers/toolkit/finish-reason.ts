import type { FinishReason } from '../../kinds/chat.ts'

/** The calls in an answer: of tools, or of a function in the older form. */
export type Called = 'tool_calls' | 'function_call' | null

/**
 * The finish reason of an answer with these calls. Servers end calls with `stop` (Ollama, vLLM, OpenVINO, Google's
 * OpenAI endpoint; Amazon Bedrock: strands-agents/harness-sdk#644, #1810), by which clients end their loop. OpenAI itself does so
 * only for the one function that `tool_choice` names: there it stays (`isForced`). Others claim calls that they do not make, upon
 * which clients wait or ask again and again (Kilo-Org/kilocode#7773, strands-rl/strands-env#252, earendil-works/pi#9681).
 */
export function finishWith(reason: FinishReason, called: Called, isForced = false): FinishReason {
  if (called) return reason === 'stop' && !isForced ? called : reason
  return reason === 'tool_calls' || reason === 'function_call' ? 'stop' : reason
}
