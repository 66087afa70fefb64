import { isBlock, type MessagesAnswerBlock, type MessagesBlock } from '../../../kinds/messages.ts'
import { emptyEnvelope, type ReasoningDetail } from '../../../kinds/reasoning.ts'
import { envelopeIn, signedBy } from '../over-chat/sealed-states.ts'
import { isEnvelope } from '../reasoning-envelope.ts'

type Thoughts = { reasoning_content?: string | null; reasoning_details?: readonly ReasoningDetail[] | null }

/** The reasoning text of a delta: that of its details, which their state signs, else `reasoning_content`. */
export function thinkingOf(delta: Thoughts): string {
  const { reasoning_details: details } = delta
  const signed = (details ?? []).map(({ text }) => text ?? '').join('')
  return signed || (delta.reasoning_content ?? '')
}

/** The blocks of a complete answer's reasoning: those that come first, and those that come right before its calls. */
type ReasoningBlocks = { first: MessagesAnswerBlock[]; beforeCalls: MessagesAnswerBlock[] }

/**
 * The thinking blocks of a complete answer. Encrypted reasoning becomes the signature of the text before it; without such
 * text, it becomes a separate block before the next thinking or the calls. Clients read the first or the last block of an
 * answer as its text, so that the state of an answer without calls, which no provider needs back, is left out.
 */
export function thinkingBlocks(message: Thoughts): ReasoningBlocks {
  const details = message.reasoning_details ?? []
  const blocks: ReasoningBlocks = { first: [], beforeCalls: [] }
  let thinking = details.some(({ text }) => text) ? '' : (message.reasoning_content ?? '')
  for (const detail of details) {
    thinking += detail.text ?? ''
    const envelope = envelopeIn(detail)
    if (envelope === null) continue
    const isBare = thinking === '' && detail.type !== 'reasoning.text'
    if (!isBare) pushThinking(blocks, { type: 'thinking', thinking, signature: envelope })
    else if (signedBy(detail) !== 'text') blocks.beforeCalls.push({ type: 'redacted_thinking', data: envelope })
    thinking = ''
  }
  if (thinking.trim() !== '') pushThinking(blocks, { type: 'thinking', thinking, signature: emptyEnvelope })
  return blocks
}

/** Adds thinking after the state that came before it. */
function pushThinking({ first, beforeCalls }: ReasoningBlocks, block: MessagesAnswerBlock): void {
  first.push(...beforeCalls.splice(0), block)
}

/** The sealed states that a client returns in the blocks of an earlier answer, as details of the chat message. */
export function returnedDetails(blocks: readonly MessagesBlock[]): ReasoningDetail[] {
  return blocks.flatMap((block, index): ReasoningDetail[] => {
    if (isBlock(block, 'thinking') && isSealed(block.signature))
      return [{ type: 'reasoning.text', text: block.thinking, signature: block.signature, index }]
    return isBlock(block, 'redacted_thinking') && isSealed(block.data)
      ? [{ type: 'reasoning.encrypted', data: block.data, index }]
      : []
  })
}

function isSealed(state: string | null | undefined): state is string {
  return state != null && isEnvelope(state) && state !== emptyEnvelope
}
