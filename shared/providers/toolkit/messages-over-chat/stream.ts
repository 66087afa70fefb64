import type { Usage } from '../../../base/usage.ts'
import type { ChatChunk, ChatDelta, FinishReason } from '../../../kinds/chat.ts'
import type { MessageEvent } from '../../../kinds/messages.ts'
import { messagesUsage } from '../../../kinds/messages-usage.ts'
import { textTokens } from '../over-chat/estimate.ts'
import { sealedStates } from '../over-chat/sealed-states.ts'
import { callId, matchedStop, messageHead, messagesCitations, stopOf } from './answer.ts'
import { BlockQueue, type ToolBlock } from './block-queue.ts'
import { thinkingOf } from './reasoning-state.ts'

type EncoderOptions = {
  /** The stop sequences of the request. */
  stopSequences?: readonly string[]
  /** The id and model of the message; those of the first chunk by default. */
  id?: string
  model?: string
  /** What `message_start` states: a chat stream reports its usage last. */
  estimatedInputTokens: number
}

type ToolCallDelta = NonNullable<ChatDelta['tool_calls']>[number]

/**
 * Encodes the chunks of a chat stream as the events of a Messages stream: `push` gives the events of a chunk, `end` the
 * rest once the answer is complete. Of several choices, only the first is encoded.
 */
export class MessageEventEncoder {
  readonly #options: EncoderOptions
  readonly #blocks = new BlockQueue()
  /** The latest tool call of each index. */
  readonly #tools = new Map<number, ToolBlock>()
  #answerId = ''
  #toolCount = 0
  #hasStarted = false
  #hasEnded = false
  #refusal = ''
  #finish: FinishReason | null = null
  #matchedStop: string | null = null
  #usage: Usage | undefined
  #outputTokens = 0

  constructor(options: EncoderOptions) {
    this.#options = options
  }

  /** What the provider has reported so far. Once the message has ended, what was shown: an estimate if it reported none. */
  get usage(): Usage | undefined {
    return this.#usage
  }

  /** Whether there is an answer that can end: a finish reason, or at least output. */
  get hasAnswer(): boolean {
    return this.#finish !== null || this.#outputTokens > 0
  }

  push(chunk: ChatChunk): MessageEvent[] {
    if (this.#hasEnded) return []
    const events = this.#start(chunk.id, chunk.model)
    if (chunk.usage) this.#usage = chunk.usage
    for (const choice of chunk.choices) {
      if (choice.index !== 0) continue
      events.push(...this.#add(choice.delta))
      const { annotations } = choice.delta
      if (annotations) this.#blocks.addCitations(messagesCitations(annotations, chunk.search_results))
      if (choice.finish_reason) this.#finish = choice.finish_reason
      this.#matchedStop ??= matchedStop(choice, this.#options.stopSequences ?? [])
    }
    return events
  }

  /** The events that end the message; none on a second call. */
  end(): MessageEvent[] {
    if (this.#hasEnded) return []
    this.#hasEnded = true
    this.#usage ??= this.#estimatedUsage()
    const events = [...this.#start('', ''), ...this.#blocks.end()]
    const stop = stopOf({
      reason: this.#finish ?? 'stop',
      hasToolCalls: this.#blocks.hasToolCalls,
      refusal: this.#refusal,
      matchedStop: this.#matchedStop,
    })
    events.push({ type: 'message_delta', delta: stop, usage: messagesUsage(this.#usage) }, { type: 'message_stop' })
    return events
  }

  #estimatedUsage(): Usage {
    const prompt_tokens = this.#options.estimatedInputTokens
    const completion_tokens = Math.ceil(this.#outputTokens)
    return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens, estimated: true }
  }

  #start(chunkId: string, chunkModel: string): MessageEvent[] {
    if (this.#hasStarted) return []
    this.#hasStarted = true
    const { id = chunkId, model = chunkModel, estimatedInputTokens } = this.#options
    this.#answerId = id
    const usage = { prompt_tokens: estimatedInputTokens, completion_tokens: 1, total_tokens: estimatedInputTokens + 1 }
    return [{ type: 'message_start', message: messageHead(id, model, messagesUsage(usage)) }]
  }

  #add(delta: ChatDelta): MessageEvent[] {
    const { content, refusal, tool_calls: calls = [] } = delta
    const thinking = thinkingOf(delta)
    const text = (content ?? '') + (refusal ?? '')
    const states = sealedStates(delta)
    this.#refusal += refusal ?? ''
    this.#outputTokens += textTokens(thinking + text)
    return [
      ...this.#blocks.addThinking(thinking),
      ...states.filter(({ isOfText }) => isOfText).flatMap(state => this.#blocks.addState(state)),
      ...this.#blocks.addText(text),
      ...states.filter(({ isOfText }) => !isOfText).flatMap(state => this.#blocks.addState(state)),
      ...(calls ?? []).flatMap(call => this.#addCall(call)),
    ]
  }

  /** Some providers count every call as the first one: another id begins another call. */
  #addCall({ index = 0, id, function: fn }: ToolCallDelta): MessageEvent[] {
    const known = this.#tools.get(index)
    this.#outputTokens += textTokens(`${fn?.name ?? ''}${fn?.arguments ?? ''}`)
    if (known && (!id || id === known.id)) {
      known.name ||= fn?.name ?? ''
      return this.#blocks.addArguments(known, fn?.arguments ?? '')
    }
    const json = fn?.arguments ?? ''
    const tool: ToolBlock = {
      type: 'tool_use',
      id: id || callId(this.#answerId, this.#toolCount),
      name: fn?.name ?? '',
      json,
      pending: json,
      isOpen: false,
    }
    this.#toolCount++
    this.#tools.set(index, tool)
    return this.#blocks.beginTool(tool)
  }
}
