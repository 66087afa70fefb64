import { unixNow } from '../../../base/time.ts'
import { type ChatChunk, type ChatDelta, type FinishReason, finishWith } from '../../../kinds/chat.ts'
import { finishReasonOf } from '../../../kinds/messages-usage.ts'
import type { SseEvent, StreamDecoder } from '../../stream-decoder.ts'
import { invalidResponse, type Json, objectIn, parseEvent, textIn } from '../../toolkit/json-fields.ts'
import { redactedDetail, thinkingDetail } from '../../toolkit/signed-thinking.ts'
import { Counters, completionId, refusalText } from './answer.ts'
import { errorFrom } from './failure.ts'

type OpenTool = { index: number; input: unknown; sent: boolean }

/**
 * Decodes message events to chat chunks. The usage comes last, in a chunk without choices. Unknown events and deltas
 * are ignored, as the API's client guidelines require; an event without a type is malformed.
 */
export class MessageDecoder implements StreamDecoder<ChatChunk> {
  /** `message_stop` is the final event. */
  over = false
  #head: Pick<ChatChunk, 'id' | 'object' | 'created' | 'model'> | undefined
  #finished = false
  #toolCount = 0
  /** Thinking blocks so far, redacted ones included. */
  #thoughtCount = 0
  /** Tool calls in progress, by block index. */
  readonly #tools = new Map<unknown, OpenTool>()
  readonly #counters: Counters

  /** `asked1hCache`: see `Counters`. */
  constructor(asked1hCache: boolean) {
    this.#counters = new Counters(asked1hCache)
  }

  /** Servers of this dialect may close the connection without the final event (esengine/DeepSeek-Reasonix#8756). */
  get done(): boolean {
    return this.#finished
  }

  /** Throws a ProviderError when the event reports an error or is malformed. */
  push({ data }: SseEvent): ChatChunk[] {
    if (this.over || data === '') return []
    const event = parseEvent(data)
    switch (textIn(event.type, 'type')) {
      case 'message_start':
        return this.#start(objectIn(event.message, 'message'))
      case 'content_block_start':
        return this.#openBlock(event.index, objectIn(event.content_block, 'content_block'))
      case 'content_block_delta':
        return this.#delta(event.index, objectIn(event.delta, 'delta'))
      case 'content_block_stop':
        return this.#closeBlock(event.index)
      case 'message_delta':
        return this.#finish(event)
      case 'message_stop':
        return this.#stop()
      case 'error':
        throw errorFrom(event.error)
      default:
        return []
    }
  }

  end(): ChatChunk[] {
    return this.#finished && !this.over ? this.#stop() : []
  }

  #start(message: Json): ChatChunk[] {
    if (message.usage) {
      // No output exists yet: the count in this event must not be taken for that of the whole response.
      const { output_tokens: _none, ...input } = objectIn(message.usage, 'usage')
      this.#counters.report(input)
    }
    this.#head = {
      id: completionId(textIn(message.id, 'id')),
      object: 'chat.completion.chunk',
      created: unixNow(),
      model: textIn(message.model, 'model'),
    }
    return this.#chunk({ role: 'assistant', content: '' })
  }

  #openBlock(index: unknown, block: Json): ChatChunk[] {
    if (block.type === 'text') return this.#text(block.text)
    if (block.type === 'thinking') {
      this.#thoughtCount++
      return this.#thinking(block.thinking, block.signature)
    }
    if (block.type === 'redacted_thinking')
      return this.#chunk({
        reasoning_details: [redactedDetail(this.#thoughtCount++, textIn(block.data, 'redacted thinking'))],
      })
    if (block.type !== 'tool_use') return []
    const tool = { index: this.#toolCount++, input: block.input, sent: false }
    this.#tools.set(index, tool)
    const call = { name: textIn(block.name, 'tool name'), arguments: '' }
    const id = textIn(block.id, 'tool id')
    return this.#chunk({ tool_calls: [{ index: tool.index, id, type: 'function', function: call }] })
  }

  #delta(index: unknown, delta: Json): ChatChunk[] {
    if (delta.type === 'text_delta') return this.#text(delta.text)
    if (delta.type === 'thinking_delta') return this.#thinking(delta.thinking)
    if (delta.type === 'signature_delta') return this.#thinking('', delta.signature)
    // Other blocks also stream JSON, such as the provider's own tools.
    const tool = delta.type === 'input_json_delta' && this.#tools.get(index)
    return tool ? this.#arguments(tool, textIn(delta.partial_json, 'partial_json')) : []
  }

  #closeBlock(index: unknown): ChatChunk[] {
    const tool = this.#tools.get(index)
    if (!tool) return []
    this.#tools.delete(index)
    // A tool without arguments gets no delta, but the caller needs valid JSON.
    return tool.sent ? [] : this.#arguments(tool, JSON.stringify(tool.input ?? {}))
  }

  #finish(event: Json): ChatChunk[] {
    this.#counters.report(event.usage)
    const { stop_reason: reason, stop_details: details } = objectIn(event.delta, 'delta')
    if (reason === undefined || reason === null) return []
    this.#finished = true
    const stopReason = textIn(reason, 'stop_reason')
    const refusal = refusalText(stopReason, details)
    const finish = finishWith(finishReasonOf(stopReason), this.#toolCount > 0 ? 'tool_calls' : null)
    return this.#chunk(refusal === null ? {} : { refusal }, finish)
  }

  #stop(): ChatChunk[] {
    if (!this.#head || !this.#finished) throw invalidResponse('the message stopped without a stop_reason')
    this.over = true
    const { usage } = this.#counters
    return usage ? [{ ...this.#head, choices: [], usage }] : []
  }

  #text(text: unknown): ChatChunk[] {
    return textIn(text, 'text') === '' ? [] : this.#chunk({ content: text as string })
  }

  #thinking(value: unknown, signature?: unknown): ChatChunk[] {
    const text = textIn(value, 'thinking')
    if (text === '' && !signature) return []
    const detail = thinkingDetail(this.#thoughtCount - 1, text, signature)
    return this.#chunk({ ...(text && { reasoning_content: text }), reasoning_details: [detail] })
  }

  #arguments(tool: OpenTool, json: string): ChatChunk[] {
    if (json === '') return []
    tool.sent = true
    return this.#chunk({ tool_calls: [{ index: tool.index, function: { arguments: json } }] })
  }

  #chunk(delta: ChatDelta, finish: FinishReason | null = null): ChatChunk[] {
    if (!this.#head) throw invalidResponse('content came before message_start')
    return [{ ...this.#head, choices: [{ index: 0, delta, finish_reason: finish }], usage: null }]
  }
}
