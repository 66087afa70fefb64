import type { MessageEvent, MessagesAnswerBlock, MessagesCitation, MessagesDelta } from '../../../kinds/messages.ts'
import { emptyEnvelope } from '../../../kinds/reasoning.ts'
import { maxCitations } from '../over-chat/citations.ts'
import type { SealedState } from '../over-chat/sealed-states.ts'
import { isVisible } from './answer.ts'

/** A block of the answer. `pending` arrived but was not written yet. */
type TextBlock = { type: 'text'; pending: string; citations: MessagesCitation[]; isOpen: boolean }
type ThinkingBlock = { type: 'thinking'; pending: string; signature: string | null; isOpen: boolean }
type RedactedBlock = { type: 'redacted_thinking'; pending: ''; data: string; isOpen: boolean }
export type ToolBlock = { type: 'tool_use'; id: string; name: string; json: string; pending: string; isOpen: boolean }
type Block = TextBlock | ThinkingBlock | RedactedBlock | ToolBlock

/**
 * Orders the blocks of a streamed answer. Chat deltas of several tool calls may alternate, but a Messages stream has
 * one open block at a time: the first block of the queue is written as it arrives, the others wait until it has ended.
 */
export class BlockQueue {
  /** True once a tool call was written. */
  hasToolCalls = false
  readonly #blocks: Block[] = []
  #hasBegunCall = false
  /** State that is needed only if a call follows. */
  readonly #beforeCall: RedactedBlock[] = []
  /** The index of the first block. */
  #index = 0

  addText(text: string): MessageEvent[] {
    if (text === '') return []
    const last = this.#blocks.at(-1)
    if (last?.type !== 'text') return this.#begin({ type: 'text', pending: text, citations: [], isOpen: false })
    last.pending += text
    return this.#write(false)
  }

  /** Adds what the last text cites; a text that has ended keeps what it has. */
  addCitations(citations: readonly MessagesCitation[]): void {
    const text = this.#blocks.findLast(({ type }) => type === 'text') as TextBlock | undefined
    text?.citations.push(...citations.slice(0, maxCitations - text.citations.length))
  }

  /** Adds to the thinking. A block that has its signature is whole. */
  addThinking(text: string): MessageEvent[] {
    if (text === '') return []
    const last = this.#blocks.at(-1)
    if (last?.type !== 'thinking' || last.signature !== null)
      return this.#beginAfterState({ type: 'thinking', pending: text, signature: null, isOpen: false })
    last.pending += text
    return this.#write(false)
  }

  /**
   * Adds sealed state: the signature of the thinking before it. Without such text it is a separate block, which waits for
   * a call or more thinking and else is left out, as is the state of a visible text: clients read the first or last block
   * as the text, and providers need the state back only within a turn of calls.
   */
  addState({ envelope, isOfText, signs }: SealedState): MessageEvent[] {
    const last = this.#blocks.at(-1)
    if (last?.type === 'thinking' && last.signature === null) {
      last.signature = envelope
      return this.#write(false)
    }
    if (isOfText) return this.#beginAfterState({ type: 'thinking', pending: '', signature: envelope, isOpen: false })
    if (signs === 'text') return []
    const block: RedactedBlock = { type: 'redacted_thinking', pending: '', data: envelope, isOpen: false }
    if (this.#hasBegunCall) return this.#begin(block)
    this.#beforeCall.push(block)
    return []
  }

  /** Begins a tool call. Its id and name may be known only later. */
  beginTool(tool: ToolBlock): MessageEvent[] {
    this.#hasBegunCall = true
    return this.#beginAfterState(tool)
  }

  /** Adds arguments. What comes after the end of the call's JSON object is left out. */
  addArguments(tool: ToolBlock, json: string): MessageEvent[] {
    if (!this.#blocks.includes(tool)) return []
    tool.json += json
    tool.pending += json
    return this.#write(false)
  }

  /** Writes and ends all blocks. */
  end(): MessageEvent[] {
    const events: MessageEvent[] = []
    for (const block of this.#blocks.splice(0)) events.push(...this.#writePending(block), ...this.#close(block))
    return events
  }

  #beginAfterState(block: Block): MessageEvent[] {
    return [...this.#beforeCall.splice(0), block].flatMap(one => this.#begin(one))
  }

  #begin(block: Block): MessageEvent[] {
    this.#blocks.push(block)
    return this.#write(true)
  }

  /**
   * Writes what the first block has. With `mayEnd`, ends blocks that another one follows. Whether a tool call has ended
   * is tried once per new block, as it means parsing its arguments: one that has not ends with the answer.
   */
  #write(mayEnd: boolean): MessageEvent[] {
    const events: MessageEvent[] = []
    for (;;) {
      const [first, next] = this.#blocks
      if (!first) return events
      events.push(...this.#writePending(first))
      if (!mayEnd || !next || !hasEnded(first)) return events
      events.push(...this.#close(first))
      this.#blocks.shift()
    }
  }

  #writePending(block: Block): MessageEvent[] {
    const events: MessageEvent[] = []
    const { pending } = block
    if (!block.isOpen) {
      if (!isShown(block)) return events
      block.isOpen = true
      if (block.type === 'tool_use') this.hasToolCalls = true
      events.push({ type: 'content_block_start', index: this.#index, content_block: emptyBlock(block) })
    }
    if (pending !== '') events.push({ type: 'content_block_delta', index: this.#index, delta: deltaOf(block) })
    block.pending = ''
    return events
  }

  /** Ends a block. A block that was never written, such as a blank text, leaves no trace. */
  #close(block: Block): MessageEvent[] {
    if (!block.isOpen) return []
    const index = this.#index++
    const stop: MessageEvent = { type: 'content_block_stop', index }
    if (block.type === 'text') {
      const cited = block.citations.map(citation => ({ type: 'citations_delta' as const, citation }))
      return [...cited.map(delta => ({ type: 'content_block_delta' as const, index, delta })), stop]
    }
    if (block.type !== 'thinking') return [stop]
    const signature = block.signature ?? emptyEnvelope
    return [{ type: 'content_block_delta', index, delta: { type: 'signature_delta', signature } }, stop]
  }
}

/** Whether a block has anything to show yet: blanks are no text, and a call needs its name. */
function isShown(block: Block): boolean {
  if (block.type === 'redacted_thinking') return true
  if (block.type === 'tool_use') return block.name !== ''
  return isVisible(block.pending) || (block.type === 'thinking' && block.signature !== null)
}

function hasEnded(block: Block): boolean {
  if (block.type !== 'tool_use') return true
  try {
    JSON.parse(block.json)
    return true
  } catch {
    return false
  }
}

function emptyBlock(block: Block): MessagesAnswerBlock {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: '' }
    case 'thinking':
      return { type: 'thinking', thinking: '', signature: '' }
    case 'redacted_thinking':
      return { type: 'redacted_thinking', data: block.data }
    case 'tool_use':
      return { type: 'tool_use', id: block.id, name: block.name, input: {} }
  }
}

function deltaOf({ type, pending }: Block): MessagesDelta {
  if (type === 'tool_use') return { type: 'input_json_delta', partial_json: pending }
  return type === 'thinking' ? { type: 'thinking_delta', thinking: pending } : { type: 'text_delta', text: pending }
}
