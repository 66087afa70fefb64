import type { ChatMessage } from '../../kinds/chat.ts'
import type { ReasoningDetail } from '../../kinds/reasoning.ts'

/** The thinking of Claude, as Anthropic's API has it. */
export type ThinkingBlock =
  | { type: 'thinking'; thinking: string; signature: string }
  | { type: 'redacted_thinking'; data: string }

/** OpenRouter's name of the format. */
const format = 'anthropic-claude-v1'

/** The detail of a thinking block or of a part of it; the signature follows the last part. */
export function thinkingDetail(index: number, text: string, signature?: unknown): ReasoningDetail {
  const signed = typeof signature === 'string' && signature !== '' ? { signature } : {}
  return { type: 'reasoning.text', text, ...signed, format, index }
}

/** The detail of a redacted block. */
export function redactedDetail(index: number, data: string): ReasoningDetail {
  return { type: 'reasoning.encrypted', data, format, index }
}

/**
 * The thinking blocks of an assistant message, as the API sent them. Text without a signature is omitted: the API
 * rejects it. A detail with a signature contains the whole text or its last part.
 */
export function thinkingBlocks({ reasoning_details }: Extract<ChatMessage, { role: 'assistant' }>): ThinkingBlock[] {
  const blocks: ThinkingBlock[] = []
  let pieces: ReasoningDetail[] = []
  for (const detail of reasoning_details ?? []) {
    if (detail.type !== 'reasoning.text') {
      pieces = []
      if (detail.type === 'reasoning.encrypted' && detail.data)
        blocks.push({ type: 'redacted_thinking', data: detail.data })
      continue
    }
    if (pieces.length > 0 && pieces[0]!.index !== detail.index) pieces = []
    pieces.push(detail)
    if (!detail.signature) continue
    const thinking = pieces.map(({ text }) => text ?? '').join('')
    blocks.push({ type: 'thinking', thinking, signature: detail.signature })
    pieces = []
  }
  return blocks
}
