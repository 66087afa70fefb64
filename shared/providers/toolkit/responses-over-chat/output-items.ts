import { parseExact } from '../../../base/exact-numbers.ts'
import type {
  ResponsesOutputItem,
  ResponsesOutputPart,
  ResponsesOutputText,
  ResponsesReasoningText,
  ResponsesSummaryText,
  ResponsesUrlCitation,
  UnnumberedResponsesEvent,
} from '../../../kinds/responses-answer.ts'
import type { ResponsesTool } from '../../../kinds/responses-tools.ts'
import { jsonObjectIn } from '../call-arguments.ts'
import { customInput } from '../custom-tools.ts'
import { type Citation, maxCitations } from '../over-chat/citations.ts'
import { callItem, idPrefixes, type OpenCall } from './open-call.ts'
import type { ToolIdentity } from './tool-names.ts'

type Message = Extract<ResponsesOutputItem, { type: 'message' }>
type Reasoning = Extract<ResponsesOutputItem, { type: 'reasoning' }>
type OpenMessage = { item: Message; index: number }
type OpenReasoning = { item: Reasoning; index: number }
/** A part of the text, and where it begins in the whole. */
type TextPart = { part: ResponsesOutputText; start: number }
type Events = UnnumberedResponsesEvent[]

/** Where reasoning is shown: as a summary, if the client asks for one, or as the reasoning itself. */
type ReasoningForm = 'summary' | 'content'

/**
 * The items of an answer as they arrive, and the events that tell a client of them. A message and reasoning end when
 * another item begins. Deltas of several tool calls may alternate; a call ends once its arguments are whole and another
 * item begins, or with the answer.
 */
export class OutputItems {
  /** All items that were begun. An item is whole once its `output_item.done` was given. */
  readonly items: ResponsesOutputItem[] = []
  readonly #idSuffix: string
  readonly #form: ReasoningForm
  /** What a search would load, by the tools in it, until the answer has the record of that search. */
  readonly #searched: Map<ToolIdentity, ResponsesTool>
  #message: OpenMessage | null = null
  #reasoning: OpenReasoning | null = null
  #calls: OpenCall[] = []
  #textLength = 0
  readonly #textParts: TextPart[] = []
  #citations: Citation[] = []

  constructor(idSuffix: string, form: ReasoningForm, searched: Map<ToolIdentity, ResponsesTool>) {
    this.#idSuffix = idSuffix
    this.#form = form
    this.#searched = searched
  }

  addText(text: string, logprobs: readonly unknown[]): Events {
    if (text === '') return []
    const { events, at, part } = this.#openPart('output_text')
    if (part.type !== 'output_text') return events
    if (part.text === '') this.#textParts.push({ part, start: this.#textLength })
    this.#textLength += text.length
    part.text += text
    part.logprobs.push(...logprobs)
    return [...events, { type: 'response.output_text.delta', ...at, delta: text, logprobs: [...logprobs] }]
  }

  addRefusal(text: string): Events {
    if (text === '') return []
    const { events, at, part } = this.#openPart('refusal')
    if (part.type !== 'refusal') return events
    part.refusal += text
    return [...events, { type: 'response.refusal.delta', ...at, delta: text }]
  }

  /** Adds citations. They are sent at the end of the text; those that come after its end are only in the whole answer. */
  addCitations(citations: readonly Citation[]): void {
    this.#citations.push(...citations.slice(0, maxCitations - this.#citations.length))
  }

  addReasoning(text: string): Events {
    if (text === '') return []
    const { events, open } = this.#openReasoning()
    const at = { item_id: open.item.id, output_index: open.index }
    const part = textPartOf(open.item)
    if (part) part.text += text
    else events.push(...this.#beginReasoningText(open, text))
    return [
      ...events,
      this.#form === 'summary'
        ? { type: 'response.reasoning_summary_text.delta', ...at, summary_index: 0, delta: text }
        : { type: 'response.reasoning_text.delta', ...at, content_index: 0, delta: text },
    ]
  }

  /** Ends the reasoning with its sealed state; state without text before it becomes a separate item. */
  addState(envelope: string): Events {
    const { events, open } = this.#openReasoning()
    open.item.encrypted_content = envelope
    return [...events, ...this.#closeReasoning(false)]
  }

  beginCall(call: OpenCall): Events {
    const events = this.#closeBefore()
    this.#calls.push(call)
    return [...events, ...this.#writePending(call)]
  }

  /** Adds to a call. What comes after the end of its JSON object is left out. */
  addArguments(call: OpenCall, json: string): Events {
    if (!this.#calls.includes(call)) return []
    call.json += json
    call.pending += json
    return this.#writePending(call)
  }

  /** Ends all items. `isCut`: the provider stopped before the answer was complete. */
  end(isCut: boolean): Events {
    const last = this.items.at(-1)
    const events = [
      ...this.#closeReasoning(isCut && last === this.#reasoning?.item),
      ...this.#closeMessage(isCut && last === this.#message?.item),
    ]
    for (const call of this.#calls) events.push(...this.#closeCall(call, isCut))
    this.#calls = []
    for (const { part } of this.#textParts) this.#annotate(part)
    return events
  }

  /** Adds an item; the event has its own copy, as the item will grow. */
  #begin<T extends ResponsesOutputItem>(item: T): { index: number; events: Events } {
    const index = this.items.push(item) - 1
    return { index, events: [{ type: 'response.output_item.added', output_index: index, item: copyOf(item) }] }
  }

  #done(index: number): UnnumberedResponsesEvent {
    return { type: 'response.output_item.done', output_index: index, item: this.items[index]! }
  }

  #idOf(prefix: string): string {
    return `${prefix}_${this.#idSuffix}_${this.items.length}`
  }

  /** Ends what another item ends. */
  #closeBefore(): Events {
    const events = [...this.#closeReasoning(false), ...this.#closeMessage(false)]
    const isOpen = (call: OpenCall) => call.index === null || jsonObjectIn(call.json) === null
    for (const call of this.#calls) if (!isOpen(call)) events.push(...this.#closeCall(call, false))
    this.#calls = this.#calls.filter(isOpen)
    return events
  }

  #openPart(type: ResponsesOutputPart['type']) {
    const events: Events = []
    if (!this.#message) {
      events.push(...this.#closeBefore())
      const item: Message = {
        type: 'message',
        id: this.#idOf('msg'),
        role: 'assistant',
        status: 'in_progress',
        content: [],
      }
      const begun = this.#begin(item)
      events.push(...begun.events)
      this.#message = { item, index: begun.index }
    }
    const { item, index } = this.#message
    let part = item.content.at(-1)
    if (part?.type !== type) {
      events.push(...this.#closePart())
      part = type === 'refusal' ? { type, refusal: '' } : { type, text: '', annotations: [], logprobs: [] }
      item.content.push(part)
      const at = { item_id: item.id, output_index: index, content_index: item.content.length - 1 }
      events.push({ type: 'response.content_part.added', ...at, part: structuredClone(part) })
    }
    return { events, part, at: { item_id: item.id, output_index: index, content_index: item.content.length - 1 } }
  }

  #closePart(): Events {
    const { item, index } = this.#message!
    const part = item.content.at(-1)
    if (!part) return []
    const at = { item_id: item.id, output_index: index, content_index: item.content.length - 1 }
    const done: UnnumberedResponsesEvent = { type: 'response.content_part.done', ...at, part }
    if (part.type === 'refusal') return [{ type: 'response.refusal.done', ...at, refusal: part.refusal }, done]
    const { text, logprobs } = part
    const added = this.#annotate(part).map((annotation, annotation_index) => {
      return { type: 'response.output_text.annotation.added' as const, ...at, annotation_index, annotation }
    })
    return [...added, { type: 'response.output_text.done', ...at, text, logprobs }, done]
  }

  /** Adds to a part the citations of its text that it does not have yet; returns these. */
  #annotate(part: ResponsesOutputText): ResponsesUrlCitation[] {
    const own = this.#textParts.find(one => one.part === part)
    if (!own) return []
    const isOwn = ({ start }: Citation) => this.#textParts.findLast(one => one.start <= start) === own
    const within = (place: number) => Math.min(place - own.start, part.text.length)
    const annotations = this.#citations.filter(isOwn).map(({ start, end, url, title }) => {
      const place = { start_index: within(start), end_index: within(end) }
      return { type: 'url_citation' as const, ...place, url, title }
    })
    this.#citations = this.#citations.filter(citation => !isOwn(citation))
    part.annotations.push(...annotations)
    return annotations
  }

  #closeMessage(isCut: boolean): Events {
    if (!this.#message) return []
    const { item, index } = this.#message
    const events = this.#closePart()
    item.status = isCut ? 'incomplete' : 'completed'
    this.#message = null
    return [...events, this.#done(index)]
  }

  #openReasoning(): { events: Events; open: OpenReasoning } {
    if (this.#reasoning) return { events: [], open: this.#reasoning }
    const events = this.#closeBefore()
    const item: Reasoning = {
      type: 'reasoning',
      id: this.#idOf('rs'),
      summary: [],
      ...(this.#form === 'content' && { content: [] }),
      encrypted_content: null,
      status: 'in_progress',
    }
    const begun = this.#begin(item)
    this.#reasoning = { item, index: begun.index }
    return { events: [...events, ...begun.events], open: this.#reasoning }
  }

  #beginReasoningText({ item, index }: OpenReasoning, text: string): Events {
    const at = { item_id: item.id, output_index: index }
    if (this.#form === 'summary') {
      item.summary.push({ type: 'summary_text', text })
      const part: ResponsesSummaryText = { type: 'summary_text', text: '' }
      return [{ type: 'response.reasoning_summary_part.added', ...at, summary_index: 0, part }]
    }
    item.content = [{ type: 'reasoning_text', text }]
    const part: ResponsesReasoningText = { type: 'reasoning_text', text: '' }
    return [{ type: 'response.content_part.added', ...at, content_index: 0, part }]
  }

  #closeReasoning(isCut: boolean): Events {
    if (!this.#reasoning) return []
    const { item, index } = this.#reasoning
    const at = { item_id: item.id, output_index: index }
    const events: Events = []
    const [summary] = item.summary
    const [content] = item.content ?? []
    if (summary) {
      events.push({ type: 'response.reasoning_summary_text.done', ...at, summary_index: 0, text: summary.text })
      events.push({ type: 'response.reasoning_summary_part.done', ...at, summary_index: 0, part: summary })
    }
    if (content) {
      events.push({ type: 'response.reasoning_text.done', ...at, content_index: 0, text: content.text })
      events.push({ type: 'response.content_part.done', ...at, content_index: 0, part: content })
    }
    item.status = isCut ? 'incomplete' : 'completed'
    this.#reasoning = null
    return [...events, this.#done(index)]
  }

  /** The input of a custom tool is written at its end, as it comes inside JSON, and so are the arguments of a search. */
  #writePending(call: OpenCall): Events {
    const { identity } = call
    if (identity.name === '') return []
    const events: Events = []
    if (call.index === null) {
      events.push(...this.#recordSearch(identity))
      const begun = this.#begin(callItem(call, this.#idOf(idPrefixes[identity.type])))
      events.push(...begun.events)
      call.index = begun.index
    }
    if (identity.type !== 'function') return events
    const delta = call.pending
    call.pending = ''
    if (delta === '') return events
    const at = { item_id: this.items[call.index]!.id, output_index: call.index }
    return [...events, { type: 'response.function_call_arguments.delta', ...at, delta }]
  }

  /** Adds the search that loads a tool or its namespace, as OpenAI's hosted search has it, before the first call. */
  #recordSearch(identity: ToolIdentity): Events {
    const loaded = this.#searched.get(identity)
    if (!loaded) return []
    for (const [other, declaration] of this.#searched) if (declaration === loaded) this.#searched.delete(other)
    const about = { call_id: null, execution: 'server', status: 'completed' } as const
    const paths = [loaded.name]
    return [
      ...this.#addWhole({ type: 'tool_search_call', id: this.#idOf('tsc'), ...about, arguments: { paths } }),
      ...this.#addWhole({ type: 'tool_search_output', id: this.#idOf('tso'), ...about, tools: [loaded] }),
    ]
  }

  #addWhole(item: ResponsesOutputItem): Events {
    const { index, events } = this.#begin(item)
    return [...events, this.#done(index)]
  }

  /** Ends a call. One whose name never came leaves no trace. */
  #closeCall(call: OpenCall, isCut: boolean): Events {
    const { index, json, identity } = call
    if (index === null) return []
    const item = this.items[index]!
    const at = { item_id: item.id, output_index: index }
    const events: Events = []
    if (item.type === 'custom_tool_call') {
      item.input = customInput(json)
      if (item.input !== '') events.push({ type: 'response.custom_tool_call_input.delta', ...at, delta: item.input })
      events.push({ type: 'response.custom_tool_call_input.done', ...at, input: item.input })
    } else if (item.type === 'function_call') {
      // A call without arguments has an empty object.
      const isBlank = json.trim() === ''
      item.arguments = isBlank ? '{}' : json
      if (isBlank) events.push({ type: 'response.function_call_arguments.delta', ...at, delta: '{}' })
      const { name } = identity
      events.push({ type: 'response.function_call_arguments.done', ...at, name, arguments: item.arguments })
    } else if (item.type === 'tool_search_call') item.arguments = jsonObjectIn(json) ?? (json.trim() === '' ? {} : json)
    item.status = isCut && jsonObjectIn(json) === null ? 'incomplete' : 'completed'
    return [...events, this.#done(index)]
  }
}

/** Of an item, whose tools may have numbers that cannot be cloned. */
function copyOf<T extends ResponsesOutputItem>(item: T): T {
  return parseExact(JSON.stringify(item)) as T
}

function textPartOf({ summary, content }: Reasoning): { text: string } | undefined {
  return summary[0] ?? content?.[0]
}
