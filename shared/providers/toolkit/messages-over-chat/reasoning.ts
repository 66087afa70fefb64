import { type Effort, effortOfBudget, efforts } from '../../../catalog/chat-profile.ts'
import { canReason } from '../../../catalog/traits.ts'
import type { ChatMessage } from '../../../kinds/chat.ts'
import { isBlock, type MessagesRequest } from '../../../kinds/messages.ts'
import type { Target } from '../../contract.ts'
import { invalid } from '../field-refusals.ts'
import type { LocatedBlock } from './media.ts'
import { returnedDetails } from './reasoning-state.ts'
import { unexpectedTag } from './refusals.ts'

/** The effort that `thinking` and `output_config.effort` ask for; undefined leaves it to the model. */
export function requestedEffort({ thinking, output_config }: MessagesRequest): Effort | undefined {
  const named = output_config?.effort
  if (named != null && !efforts.includes(named as Effort))
    throw invalid('output_config.effort', `must be one of ${efforts.slice(2).join(', ')}`)
  if (!thinking) return (named as Effort) ?? undefined
  switch (thinking.type) {
    case 'disabled':
      return 'none'
    case 'enabled':
      return (named as Effort) ?? effortOfBudget(thinking.budget_tokens ?? 0)
    case 'adaptive':
    case 'between_tools':
      return (named as Effort) ?? undefined
    default:
      throw unexpectedTag('thinking', thinking.type)
  }
}

type Reasoning = Pick<Extract<ChatMessage, { role: 'assistant' }>, 'reasoning_content'>

/** The thinking of an earlier answer: its text for models that reason, and its state, which only its account can read. */
export function reasoningOf(located: readonly LocatedBlock[], { deployment }: Target): Reasoning {
  const blocks = located.map(({ block }) => block)
  const text = blocks.map(block => (isBlock(block, 'thinking') ? block.thinking : '')).join('')
  const reasoning_details = returnedDetails(blocks)
  return {
    ...(text !== '' && canReason(deployment) && { reasoning_content: text }),
    ...(reasoning_details.length > 0 && { reasoning_details }),
  }
}
