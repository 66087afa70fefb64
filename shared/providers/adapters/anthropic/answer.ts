import { unixNow } from '../../../base/time.ts'
import { sumUsages, type Usage } from '../../../base/usage.ts'
import { type ChatCompletion, finishWith, type ToolCall } from '../../../kinds/chat.ts'
import { finishReasonOf } from '../../../kinds/messages-usage.ts'
import type { ReasoningDetail } from '../../../kinds/reasoning.ts'
import { invalidResponse, type Json, objectIn, textIn } from '../../toolkit/json-fields.ts'
import { redactedDetail, thinkingDetail } from '../../toolkit/signed-thinking.ts'
import { errorFrom } from './failure.ts'

/** The model's own reason for a refusal; null if it did not refuse or gives none. */
export function refusalText(stopReason: string, details: unknown): string | null {
  if (stopReason !== 'refusal' || typeof details !== 'object' || details === null) return null
  return 'explanation' in details && typeof details.explanation === 'string' ? details.explanation : null
}

export function completionId(messageId: string): string {
  return `chatcmpl-${messageId}`
}

/** Token counters. Each report is cumulative and may omit counters: the last value of each counts. */
export class Counters {
  readonly #asked1hCache: boolean
  #tokens: Record<string, number> = {}
  #webSearches = 0
  /** Uses of other tools of the provider that are billed apart from the tokens. */
  readonly #unpriced = new Set<string>()
  /** The provider's summary of the conversation, whose tokens the other counters exclude. */
  #compaction: Usage | undefined

  /** `asked1hCache`: the request had a mark of one hour. Cache writes of no stated lifetime then count as such. */
  constructor(asked1hCache: boolean) {
    this.#asked1hCache = asked1hCache
  }

  report(usage: unknown): void {
    if (usage === undefined || usage === null) return
    const {
      output_tokens_details: details,
      cache_creation: writes,
      server_tool_use: tools,
      iterations,
      ...counters
    } = objectIn(usage, 'usage')
    if (details) counters.thinking_tokens = objectIn(details, 'usage.output_tokens_details').thinking_tokens
    if (writes) Object.assign(counters, objectIn(writes, 'usage.cache_creation'))
    if (tools) this.#countTools(objectIn(tools, 'usage.server_tool_use'))
    if (Array.isArray(iterations)) this.#compaction = this.#usageOfCompaction(iterations)
    for (const name of counterNames) {
      const count = counters[name]
      if (Number.isSafeInteger(count) && (count as number) >= 0) this.#tokens[name] = count as number
    }
  }

  /** Undefined when the provider counted nothing. `input_tokens` excludes cache reads and writes. */
  get usage(): Usage | undefined {
    const usage = this.#usageOfMessage()
    return usage && this.#compaction ? sumUsages([usage, this.#compaction]) : usage
  }

  #usageOfMessage(): Usage | undefined {
    const { input_tokens, output_tokens, cache_read_input_tokens: read = 0 } = this.#tokens
    const { thinking_tokens: thinking = 0 } = this.#tokens
    if (input_tokens === undefined || output_tokens === undefined) return undefined
    const { writes, writes1h } = this.#cacheWrites()
    const prompt = input_tokens + read + writes
    return {
      prompt_tokens: prompt,
      completion_tokens: output_tokens,
      total_tokens: prompt + output_tokens,
      ...((read > 0 || writes > 0) && {
        prompt_tokens_details: {
          cached_tokens: read,
          cache_write_tokens: writes,
          ...(writes1h > 0 && { cache_write_1h_tokens: writes1h }),
        },
      }),
      ...(this.#webSearches > 0 && { web_searches: this.#webSearches }),
      ...(this.#unpriced.size > 0 && { unpriced: [...this.#unpriced] }),
      ...(thinking > 0 && { completion_tokens_details: { reasoning_tokens: thinking } }),
    }
  }

  /** Web fetches cost nothing beside their tokens. */
  #countTools(uses: Record<string, unknown>): void {
    for (const [name, count] of Object.entries(uses)) {
      if (!Number.isSafeInteger(count) || (count as number) <= 0 || name === 'web_fetch_requests') continue
      if (name === 'web_search_requests') this.#webSearches = count as number
      else this.#unpriced.add(name)
    }
  }

  #usageOfCompaction(iterations: readonly unknown[]): Usage | undefined {
    const usages = iterations.flatMap(iteration => {
      const { type, ...usage } = objectIn(iteration, 'usage.iterations')
      if (type !== 'compaction') return []
      const counters = new Counters(this.#asked1hCache)
      counters.report(usage)
      return counters.usage ?? []
    })
    const [first, ...others] = usages
    return first && sumUsages([first, ...others])
  }

  /** The usage before any output was counted: that of the prompt. Undefined when it was not counted. */
  get promptUsage(): Usage | undefined {
    const counted = new Counters(this.#asked1hCache)
    counted.#tokens = { ...this.#tokens, output_tokens: 0, thinking_tokens: 0 }
    return counted.usage
  }

  /** All tokens written to caches, and those for one hour. */
  #cacheWrites(): { writes: number; writes1h: number } {
    const { cache_creation_input_tokens: total = 0 } = this.#tokens
    const { ephemeral_5m_input_tokens: for5m = 0, ephemeral_1h_input_tokens: for1h = 0 } = this.#tokens
    const writes = Math.max(total, for5m + for1h)
    return { writes, writes1h: this.#asked1hCache ? writes - for5m : for1h }
  }
}

const counterNames = [
  'input_tokens',
  'output_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'ephemeral_5m_input_tokens',
  'ephemeral_1h_input_tokens',
  'thinking_tokens',
]

/** The message that an answer is. Throws the ProviderError that it reports: some servers do so with 200, as in their streams. */
export function messageIn(json: unknown): Json {
  const message = objectIn(json, 'message')
  if (message.type === 'error') throw errorFrom(message.error)
  return message
}

/**
 * Converts a complete message to a chat completion. `asked1hCache`: see `Counters`. Throws a ProviderError
 * `invalid_response` when it is malformed.
 */
export function completionFrom(json: unknown, asked1hCache: boolean): ChatCompletion {
  const message = messageIn(json)
  if (!Array.isArray(message.content)) throw invalidResponse('content is not a list')
  const stopReason = textIn(message.stop_reason, 'stop_reason')
  const texts: string[] = []
  const thoughts: string[] = []
  const details: ReasoningDetail[] = []
  const toolCalls: ToolCall[] = []
  for (const item of message.content) {
    const block = objectIn(item, 'content block')
    if (block.type === 'text') texts.push(textIn(block.text, 'text'))
    if (block.type === 'thinking') {
      const text = textIn(block.thinking, 'thinking')
      thoughts.push(text)
      details.push(thinkingDetail(details.length, text, block.signature))
    }
    if (block.type === 'redacted_thinking')
      details.push(redactedDetail(details.length, textIn(block.data, 'redacted thinking')))
    if (block.type === 'tool_use') {
      const name = textIn(block.name, 'tool name')
      // GLM writes null where there is none (sipeed/picoclaw#1663).
      const input = JSON.stringify(objectIn(block.input ?? {}, 'tool input'))
      toolCalls.push({ id: textIn(block.id, 'tool id'), type: 'function', function: { name, arguments: input } })
    }
  }
  const reasoning = thoughts.join('')
  const counters = new Counters(asked1hCache)
  counters.report(message.usage)
  const { usage } = counters
  return {
    id: completionId(textIn(message.id, 'id')),
    object: 'chat.completion',
    created: unixNow(),
    model: textIn(message.model, 'model'),
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: texts.length > 0 ? texts.join('') : null,
          refusal: refusalText(stopReason, message.stop_details),
          ...(reasoning && { reasoning_content: reasoning }),
          ...(details.length > 0 && { reasoning_details: details }),
          ...(toolCalls.length > 0 && { tool_calls: toolCalls }),
        },
        logprobs: null,
        finish_reason: finishWith(finishReasonOf(stopReason), toolCalls.length > 0 ? 'tool_calls' : null),
      },
    ],
    ...(usage && { usage }),
  }
}
