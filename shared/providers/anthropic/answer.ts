import type { Usage } from '../../base/usage.ts'
import type { ChatCompletion, FinishReason, ToolCall } from '../../kinds/chat.ts'
import { nonsense, objectIn, textIn } from './wire.ts'

const finishReasons: Record<string, FinishReason> = {
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
}

/** The other stop reasons, and ones still unknown, end an answer in the ordinary way. */
export function finishReason(stopReason: string): FinishReason {
  return finishReasons[stopReason] ?? 'stop'
}

/** Why the model refused, in its own words; null when it did not or says nothing. */
export function refusalText(stopReason: string, details: unknown): string | null {
  if (stopReason !== 'refusal' || typeof details !== 'object' || details === null) return null
  return 'explanation' in details && typeof details.explanation === 'string' ? details.explanation : null
}

export function completionId(messageId: string): string {
  return `chatcmpl-${messageId}`
}

/** Token counters. Each report is cumulative and may leave counters out: the last number given of each counts. */
export class Counters {
  #tokens: Record<string, number> = {}

  report(usage: unknown): void {
    if (usage === undefined || usage === null) return
    const { output_tokens_details: details, ...counters } = objectIn(usage, 'usage')
    if (details) counters.thinking_tokens = objectIn(details, 'usage.output_tokens_details').thinking_tokens
    for (const name of counterNames) {
      const count = counters[name]
      if (Number.isSafeInteger(count) && (count as number) >= 0) this.#tokens[name] = count as number
    }
  }

  /** Undefined when the provider counted nothing. Cache reads and writes stand beside `input_tokens`, not in it. */
  get usage(): Usage | undefined {
    const { input_tokens, output_tokens, cache_read_input_tokens: read = 0 } = this.#tokens
    const { cache_creation_input_tokens: written = 0, thinking_tokens: thinking = 0 } = this.#tokens
    if (input_tokens === undefined || output_tokens === undefined) return undefined
    const prompt = input_tokens + read + written
    return {
      prompt_tokens: prompt,
      completion_tokens: output_tokens,
      total_tokens: prompt + output_tokens,
      ...((read > 0 || written > 0) && { prompt_tokens_details: { cached_tokens: read, cache_write_tokens: written } }),
      ...(thinking > 0 && { completion_tokens_details: { reasoning_tokens: thinking } }),
    }
  }
}

const counterNames = [
  'input_tokens',
  'output_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'thinking_tokens',
]

/** A whole message as a chat completion. Throws a ProviderError `invalid_response` when it makes no sense. */
export function completionFrom(json: unknown): ChatCompletion {
  const message = objectIn(json, 'message')
  if (!Array.isArray(message.content)) throw nonsense('content is not a list')
  const stopReason = textIn(message.stop_reason, 'stop_reason')
  const texts: string[] = []
  const thoughts: string[] = []
  const toolCalls: ToolCall[] = []
  for (const item of message.content) {
    const block = objectIn(item, 'content block')
    if (block.type === 'text') texts.push(textIn(block.text, 'text'))
    if (block.type === 'thinking') thoughts.push(textIn(block.thinking, 'thinking'))
    if (block.type === 'tool_use') {
      const name = textIn(block.name, 'tool name')
      const input = JSON.stringify(objectIn(block.input, 'tool input'))
      toolCalls.push({ id: textIn(block.id, 'tool id'), type: 'function', function: { name, arguments: input } })
    }
  }
  const reasoning = thoughts.join('')
  const counters = new Counters()
  counters.report(message.usage)
  const { usage } = counters
  return {
    id: completionId(textIn(message.id, 'id')),
    object: 'chat.completion',
    created: Math.floor(Date.now() / 1000),
    model: textIn(message.model, 'model'),
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: texts.length > 0 ? texts.join('') : null,
          refusal: refusalText(stopReason, message.stop_details),
          ...(reasoning && { reasoning_content: reasoning }),
          ...(toolCalls.length > 0 && { tool_calls: toolCalls }),
        },
        logprobs: null,
        finish_reason: finishReason(stopReason),
      },
    ],
    ...(usage && { usage }),
  }
}
