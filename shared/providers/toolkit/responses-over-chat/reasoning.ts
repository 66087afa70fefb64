import type { ChatMessage } from '../../../kinds/chat.ts'
import type { ReasoningDetail } from '../../../kinds/reasoning.ts'
import type { KnownResponsesItem } from '../../../kinds/responses.ts'
import { isEnvelope } from '../reasoning-envelope.ts'

type ReasoningItem = Extract<KnownResponsesItem, { type: 'reasoning' }>
type Reasoning = Pick<Extract<ChatMessage, { role: 'assistant' }>, 'reasoning_content' | 'reasoning_details'>

/**
 * The reasoning items of an earlier answer as fields of its chat message: the text for models that reason, and the
 * state that the gateway has sealed. The state of other providers is left out, as only they can read it.
 */
export function returnedReasoning(items: readonly ReasoningItem[], isForReasoner: boolean): Reasoning {
  const text = items.map(textOf).join('')
  const reasoning_details = items.flatMap((item, index): ReasoningDetail[] => {
    const state = item.encrypted_content
    return state && isEnvelope(state) ? [{ type: 'reasoning.text', text: textOf(item), signature: state, index }] : []
  })
  return {
    ...(text !== '' && isForReasoner && { reasoning_content: text }),
    ...(reasoning_details.length > 0 && { reasoning_details }),
  }
}

/** The reasoning itself, or else its summary. */
function textOf({ content, summary }: ReasoningItem): string {
  const parts = content?.length ? content : (summary ?? [])
  return parts.map(({ text }) => text).join('\n\n')
}
