import { newId } from '../../../base/ids.ts'
import { unixNow } from '../../../base/time.ts'
import type { ChatChunk, ChatDelta, FinishReason } from '../../../kinds/chat.ts'
import type { Call } from '../../contract.ts'
import type { SseEvent, StreamDecoder } from '../../stream-decoder.ts'
import { calledName } from '../../toolkit/called-name.ts'
import { invalidResponse, type Json, objectIn, parseEvent, textIn } from '../../toolkit/json-fields.ts'
import { redactedDetail, thinkingDetail } from '../../toolkit/signed-thinking.ts'
import { finishReason, usageFrom } from './answer.ts'
import { exceptionPrefix, faultEvent } from './event-stream.ts'
import { streamFailure } from './failure.ts'

type OpenTool = { index: number; hasInput: boolean }

/**
 * Decodes the events of ConverseStream to chat chunks. The usage comes last, in a chunk without choices. Unknown events and
 * deltas are ignored.
 */
export class ConverseDecoder implements StreamDecoder<ChatChunk> {
  /** `messageStop` ends the answer; its counts follow. */
  done = false
  over = false
  readonly #head: Pick<ChatChunk, 'id' | 'object' | 'created' | 'model'>
  #toolCount = 0
  /** Reasoning blocks so far, by block index. */
  readonly #thoughts = new Map<unknown, number>()
  /** Tool calls in progress, by block index. */
  readonly #tools = new Map<unknown, OpenTool>()

  constructor({ target }: Call<'chat'>) {
    const { upstream_model: model } = target.deployment
    this.#head = { id: newId('chatcmpl'), object: 'chat.completion.chunk', created: unixNow(), model }
  }

  /** Throws a ProviderError when the event reports an error or is malformed. */
  push({ event: name, data }: SseEvent): ChatChunk[] {
    if (name === faultEvent) throw invalidResponse(data)
    if (name.startsWith(exceptionPrefix)) throw streamFailure(name.slice(exceptionPrefix.length), data)
    if (this.over || data === '') return []
    const event = parseEvent(data)
    switch (name) {
      case 'messageStart':
        return this.#chunk({ role: 'assistant', content: '' })
      case 'contentBlockStart':
        return this.#openBlock(event.contentBlockIndex, objectIn(event.start, 'start'))
      case 'contentBlockDelta':
        return this.#delta(event.contentBlockIndex, objectIn(event.delta, 'delta'))
      case 'contentBlockStop':
        return this.#closeBlock(event.contentBlockIndex)
      case 'messageStop':
        this.done = true
        return this.#chunk({}, finishReason(textIn(event.stopReason, 'stopReason'), this.#toolCount > 0))
      case 'metadata':
        return this.#finish(event)
      default:
        return []
    }
  }

  #openBlock(index: unknown, { toolUse }: Json): ChatChunk[] {
    if (toolUse === undefined) return []
    const { toolUseId, name } = objectIn(toolUse, 'toolUse')
    const tool = { index: this.#toolCount++, hasInput: false }
    this.#tools.set(index, tool)
    const id = textIn(toolUseId, 'toolUseId')
    const call = { name: calledName(textIn(name, 'tool name')), arguments: '' }
    return this.#chunk({ tool_calls: [{ index: tool.index, id, type: 'function', function: call }] })
  }

  #delta(index: unknown, { text, toolUse, reasoningContent }: Json): ChatChunk[] {
    if (text !== undefined) return textIn(text, 'text') === '' ? [] : this.#chunk({ content: text as string })
    if (reasoningContent !== undefined) return this.#reasoning(index, objectIn(reasoningContent, 'reasoningContent'))
    if (toolUse === undefined) return []
    const tool = this.#tools.get(index)
    if (!tool) throw invalidResponse('a tool input came before its call')
    return this.#arguments(tool, textIn(objectIn(toolUse, 'toolUse').input, 'tool input'))
  }

  #reasoning(block: unknown, { text, signature, redactedContent }: Json): ChatChunk[] {
    const index = this.#thoughts.get(block) ?? this.#thoughts.size
    this.#thoughts.set(block, index)
    if (redactedContent !== undefined)
      return this.#chunk({ reasoning_details: [redactedDetail(index, textIn(redactedContent, 'redactedContent'))] })
    const thought = text === undefined ? '' : textIn(text, 'reasoning text')
    if (thought === '' && !signature) return []
    const detail = thinkingDetail(index, thought, signature)
    return this.#chunk({ ...(thought && { reasoning_content: thought }), reasoning_details: [detail] })
  }

  #closeBlock(index: unknown): ChatChunk[] {
    const tool = this.#tools.get(index)
    if (!tool) return []
    this.#tools.delete(index)
    // A tool without arguments gets no delta, but the caller needs valid JSON.
    return tool.hasInput ? [] : this.#arguments(tool, '{}')
  }

  #arguments(tool: OpenTool, json: string): ChatChunk[] {
    if (json === '') return []
    tool.hasInput = true
    return this.#chunk({ tool_calls: [{ index: tool.index, function: { arguments: json } }] })
  }

  #finish({ usage: counts }: Json): ChatChunk[] {
    if (!this.done) throw invalidResponse('the counts came before the stop reason')
    this.over = true
    const usage = usageFrom(counts)
    return usage ? [{ ...this.#head, choices: [], usage }] : []
  }

  #chunk(delta: ChatDelta, finish: FinishReason | null = null): ChatChunk[] {
    return [{ ...this.#head, choices: [{ index: 0, delta, finish_reason: finish }], usage: null }]
  }
}
