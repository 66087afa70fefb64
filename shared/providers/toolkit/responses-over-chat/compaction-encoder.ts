import type { Usage } from '../../../base/usage.ts'
import type { ChatChunk } from '../../../kinds/chat.ts'
import type { ResponsesEvent, ResponsesOutputItem, UnnumberedResponsesEvent } from '../../../kinds/responses-answer.ts'
import { type EncoderOptions, ResponseEventEncoder } from './stream.ts'

type Compaction = Extract<ResponsesOutputItem, { type: 'compaction' }>

/**
 * Encodes the summary of a conversation as a response whose only item is a `compaction`: clients expect exactly one item
 * (openai/codex, core/src/compact_remote_v2.rs). Its text is in the sealed item only.
 */
export class CompactionEncoder {
  readonly #encoder: ResponseEventEncoder
  readonly #seal: (summary: string) => string
  #summary = ''
  #item: Compaction | null = null
  #eventCount = 0

  constructor(options: EncoderOptions, seal: (summary: string) => string) {
    this.#encoder = new ResponseEventEncoder(options)
    this.#seal = seal
  }

  get usage(): Usage | undefined {
    return this.#encoder.usage
  }

  /** A model that calls a tool instead, or thinks only, has written no summary. */
  get hasAnswer(): boolean {
    return this.#encoder.hasAnswer && this.#summary.trim() !== ''
  }

  push(chunk: ChatChunk): ResponsesEvent[] {
    return this.#encoder.push(chunk).flatMap(event => this.#encode(event))
  }

  end(): ResponsesEvent[] {
    const last = this.#encoder.end().at(-1)
    if (!last || !('response' in last) || !this.#item || this.#summary.trim() === '') return []
    this.#item.encrypted_content = this.#seal(this.#summary)
    return [
      this.#number({ type: 'response.output_item.done', output_index: 0, item: this.#item }),
      this.#number({ ...last, response: { ...last.response, output: [this.#item] } }),
    ]
  }

  #encode(event: ResponsesEvent): ResponsesEvent[] {
    if ('response' in event) return [this.#number(event)]
    if (event.type !== 'response.output_text.delta') return []
    const events: UnnumberedResponsesEvent[] = []
    if (!this.#item) {
      this.#item = { type: 'compaction', id: event.item_id.replace(/^msg_/, 'cmp_'), encrypted_content: '' }
      events.push({ type: 'response.output_item.added', output_index: 0, item: { ...this.#item } })
    }
    this.#summary += event.delta
    events.push({ type: 'response.compaction.compacting', item_id: this.#item.id, output_index: 0 })
    return events.map(one => this.#number(one))
  }

  #number(event: UnnumberedResponsesEvent): ResponsesEvent {
    return { ...event, sequence_number: this.#eventCount++ }
  }
}
