import { createdAt, unixNow } from '../../../base/time.ts'
import type { ChatChunk, ChatDelta, FinishReason } from '../../../kinds/chat.ts'
import type { ResponsesEvent, ResponsesObject, ResponsesOutputItem } from '../../../kinds/responses-answer.ts'
import { type SseEvent, type StreamDecoder, WrappingDecoder } from '../../stream-decoder.ts'
import { textIn } from '../json-fields.ts'
import {
  argumentsOf,
  type CallItem,
  finishOf,
  isCall,
  messageBreak,
  stateOf,
  summaryBreak,
  textsOfItem,
} from './answer.ts'
import { stateDetail, summaryDetail } from './reasoning.ts'

/** A call that has begun: its index among the calls, and how much of its arguments was passed on. */
type OpenCall = { index: number; sent: number; isCustom: boolean }
type DeltaCall = NonNullable<ChatDelta['tool_calls']>[number]

/** Decodes the events of a response to chat chunks. Events of unknown types say nothing in chat. */
export class ResponsesChunkDecoder extends WrappingDecoder<ResponsesEvent, ChatChunk> {
  #head: Pick<ChatChunk, 'id' | 'object' | 'created' | 'model'>
  #hasBegun = false
  /** By the place of the item in the output. */
  readonly #calls = new Map<number, OpenCall>()
  #hasSummary = false
  /** The place of the message with the latest text. */
  #textPlace: number | null = null
  /** The places of items whose text came in deltas, or that have ended. */
  readonly #told = new Set<number>()

  constructor(decoder: StreamDecoder<ResponsesEvent>, model: string) {
    super(decoder)
    this.#head = { id: '', object: 'chat.completion.chunk', created: unixNow(), model }
  }

  push(event: SseEvent, part?: number): ChatChunk[] {
    return this.decoder.push(event, part).flatMap(one => this.#chunksOf(one))
  }

  #chunksOf(event: ResponsesEvent): ChatChunk[] {
    switch (event.type) {
      case 'response.created':
        this.#begin(event.response)
        return []
      case 'response.output_text.delta':
        this.#told.add(event.output_index)
        return this.#addText(event.output_index, textIn(event.delta, 'a delta'))
      case 'response.refusal.delta':
        this.#told.add(event.output_index)
        return this.#delta({ refusal: textIn(event.delta, 'a delta') })
      case 'response.reasoning_summary_part.added':
        return this.#hasSummary ? this.#addSummary(event.output_index, summaryBreak) : []
      case 'response.reasoning_summary_text.delta':
        return this.#addSummary(event.output_index, textIn(event.delta, 'a delta'))
      case 'response.output_item.added':
        return isCall(event.item) ? this.#beginCall(event.output_index, event.item) : []
      case 'response.function_call_arguments.delta':
      case 'response.custom_tool_call_input.delta':
        return this.#addArguments(event.output_index, textIn(event.delta, 'a delta'))
      case 'response.output_item.done':
        return this.#endItem(event.output_index, event.item)
      case 'response.completed':
      case 'response.incomplete':
        return this.#finish(event.response)
      default:
        return []
    }
  }

  #begin({ id, created_at: created, model }: ResponsesObject): void {
    this.#head = {
      ...this.#head,
      id,
      created: createdAt(created),
      ...(typeof model === 'string' && { model }),
    }
  }

  #addSummary(place: number, text: string): ChatChunk[] {
    this.#hasSummary = true
    return this.#delta({ reasoning_content: text, reasoning_details: [summaryDetail(place, text)] })
  }

  #beginCall(place: number, item: CallItem): ChatChunk[] {
    const { call_id: id, name } = item
    const isCustom = item.type === 'custom_tool_call'
    const index = this.#calls.size
    this.#calls.set(place, { index, sent: 0, isCustom })
    if (!isCustom) return this.#call({ index, id, type: 'function', function: { name, arguments: '' } })
    return this.#call({ index, id, type: 'custom', custom: { name, input: '' } } as unknown as DeltaCall)
  }

  #addArguments(place: number, text: string): ChatChunk[] {
    const call = this.#calls.get(place)
    if (!call || text === '') return []
    const { index, isCustom } = call
    call.sent += text.length
    if (!isCustom) return this.#call({ index, function: { arguments: text } })
    return this.#call({ index, custom: { input: text } } as unknown as DeltaCall)
  }

  /** What the whole item has beyond the events before. Some servers give texts in it alone (bytedance/deer-flow#1928). */
  #endItem(place: number, item: ResponsesOutputItem): ChatChunk[] {
    const isTold = this.#told.has(place)
    this.#told.add(place)
    if (item.type === 'message') return isTold ? [] : this.#addTexts(place, item)
    const state = stateOf(item)
    if (state !== null) return this.#delta({ reasoning_details: [stateDetail(place, state)] })
    if (!isCall(item)) return []
    const begun = this.#calls.has(place) ? [] : this.#beginCall(place, item)
    const rest = argumentsOf(item).slice(this.#calls.get(place)!.sent)
    return [...begun, ...this.#addArguments(place, rest)]
  }

  #addTexts(place: number, item: ResponsesOutputItem): ChatChunk[] {
    const { text, refusal } = textsOfItem(item)
    return [...(text ? this.#addText(place, text) : []), ...(refusal ? this.#delta({ refusal }) : [])]
  }

  #addText(place: number, text: string): ChatChunk[] {
    const isNextMessage = text !== '' && this.#textPlace !== null && this.#textPlace !== place
    if (text !== '') this.#textPlace = place
    return this.#delta({ content: isNextMessage ? messageBreak + text : text })
  }

  /** The end, with the items if none was told before. */
  #finish(response: ResponsesObject): ChatChunk[] {
    const { usage } = this.decoder
    const isTold = this.#told.size > 0 || this.#calls.size > 0
    const items = isTold ? [] : response.output.flatMap((item, place) => this.#endItem(place, item))
    const [last] = this.#delta({}, finishOf(response, this.#calls.size > 0))
    return [...items, { ...last!, ...(usage && { usage }) }]
  }

  #call(call: DeltaCall): ChatChunk[] {
    return this.#delta({ tool_calls: [call] })
  }

  #delta(delta: ChatDelta, finish: FinishReason | null = null): ChatChunk[] {
    const role = this.#hasBegun ? {} : { role: 'assistant' as const }
    this.#hasBegun = true
    return [{ ...this.#head, choices: [{ index: 0, delta: { ...role, ...delta }, finish_reason: finish }] }]
  }
}
