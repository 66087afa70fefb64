import { isObject } from '../../../base/is-object.ts'
import { unixNow } from '../../../base/time.ts'
import type { ChatChunk, ChatDelta, FinishReason, SearchResult, ToolCall } from '../../../kinds/chat.ts'
import type { Call, Target } from '../../contract.ts'
import type { SseEvent, StreamDecoder } from '../../stream-decoder.ts'
import { type Json, parseEvent } from '../../toolkit/json-fields.ts'
import { reportedFailure } from '../openai/failure.ts'
import { failureOfResponse, responseFrom } from '../openai/responses-answer.ts'
import { citationsIn, partsOf, resultsOf, sourcesOf, toolCallFrom } from './answer.ts'

/**
 * Decodes the events of a run to chat chunks. They have no names, only a `type`, and no `[DONE]`; unknown types are ignored, as the API
 * asks for. What the last event has of text and calls beyond the events before is added, so that nothing is lost.
 */
export class AgentDecoder implements StreamDecoder<ChatChunk> {
  done = false
  /** Searches whose results came in events, and those that came as items, which may come later. */
  readonly #searches = { told: 0, whole: 0 }
  readonly #target: Target
  #head: Pick<ChatChunk, 'id' | 'object' | 'created' | 'model'>
  #hasBegun = false
  #text = ''
  readonly #calls = new Set<string>()
  #results: SearchResult[] = []
  /** How many marks of the text were told as citations. */
  #cited = 0

  constructor({ target }: Call<'chat'>) {
    this.#target = target
    this.#head = {
      id: '',
      object: 'chat.completion.chunk',
      created: unixNow(),
      model: target.deployment.upstream_model,
    }
  }

  get webSearches(): number {
    return Math.max(this.#searches.told, this.#searches.whole)
  }

  /** Throws a ProviderError when the event reports an error or is malformed. */
  push({ data }: SseEvent): ChatChunk[] {
    if (this.done || data === '' || data === '[DONE]') return []
    const event = parseEvent(data)
    switch (event.type) {
      case 'response.created':
        return this.#begin(event.response)
      case 'response.output_text.delta':
        return typeof event.delta === 'string' && event.delta !== '' ? this.#addText(event.delta) : []
      case 'response.reasoning.search_results':
        this.#searches.told++
        return []
      case 'response.output_item.done':
        return isObject(event.item) ? this.#addItem(event.item) : []
      case 'response.completed':
      case 'response.incomplete':
        return this.#finish(event.response)
      case 'response.failed':
      case 'response.cancelled':
        throw failureOfResponse(isObject(event.response) ? event.response : event)
      case 'error':
        throw reportedFailure(event)
      default:
        return []
    }
  }

  #begin(response: unknown): ChatChunk[] {
    if (!isObject(response)) return []
    const { id, created_at: created } = response
    if (typeof id === 'string') this.#head = { ...this.#head, id }
    if (Number.isSafeInteger(created)) this.#head = { ...this.#head, created: created as number }
    return []
  }

  #addText(text: string): ChatChunk[] {
    this.#text += text
    return [this.#chunk({ content: text })]
  }

  #addItem(item: Json): ChatChunk[] {
    if (item.type === 'search_results') {
      this.#searches.whole++
      this.#results.push(...resultsOf(item))
    }
    return toolCallFrom(item).flatMap(call => this.#addCall(call))
  }

  /** Citations of the text so far that were not told. */
  #newCitations(): Pick<ChatDelta, 'annotations'> {
    const annotations = citationsIn(this.#text, this.#results).slice(this.#cited)
    this.#cited += annotations.length
    return annotations.length > 0 ? { annotations } : {}
  }

  #addCall({ id, function: called }: ToolCall): ChatChunk[] {
    if (this.#calls.has(id)) return []
    const index = this.#calls.size
    this.#calls.add(id)
    // The text ends here in formats that have calls and texts as blocks.
    const cited = this.#newCitations()
    const chunk = this.#chunk({ tool_calls: [{ index, id, type: 'function', function: called }] })
    return [...(cited.annotations ? [this.#chunk(cited)] : []), chunk]
  }

  #finish(given: unknown): ChatChunk[] {
    const response = responseFrom(given)
    const { text, toolCalls, results, finishReason, usage } = partsOf(response, this.#target.provider)
    const rest = text.startsWith(this.#text) ? text.slice(this.#text.length) : ''
    this.#results = results
    const chunks = [...(rest ? this.#addText(rest) : []), ...toolCalls.flatMap(call => this.#addCall(call))]
    const last = this.#chunk(this.#newCitations(), finishReason)
    this.done = true
    if (typeof response.model === 'string') last.model = response.model
    return [...chunks, { ...last, ...sourcesOf(results), ...(usage && { usage }) }]
  }

  #chunk(delta: ChatDelta, finish: FinishReason | null = null): ChatChunk {
    const role = this.#hasBegun ? {} : { role: 'assistant' as const }
    this.#hasBegun = true
    return { ...this.#head, choices: [{ index: 0, delta: { ...role, ...delta }, finish_reason: finish }] }
  }
}
