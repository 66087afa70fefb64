import { efforts } from '../../catalog/chat-profile.ts'
import type { Call } from '../contract.ts'
import { thinkingBlocks } from './signed-thinking.ts'

/** Thinking budgets in tokens, for models that take a budget instead of an effort. */
const budgetTokens = { minimal: 1024, low: 1024, medium: 4096, high: 16_384, xhigh: 32_768, max: 65_536 } as const
const minBudgetTokens = 1024

export type ClaudeThinking = { type: 'adaptive' | 'disabled' } | { type: 'enabled'; budget_tokens: number }

/**
 * The thinking settings of Claude. The budget is part of the output ceiling and never raises it, because the reservation
 * covers no more. Thinking is disabled where the budget does not fit, and where the API rejects it. `isForced`: the model
 * must call a tool.
 */
export function claudeThinking(
  { body, target }: Pick<Call<'chat'>, 'body' | 'target'>,
  maxTokens: number,
  isForced: boolean,
): ClaudeThinking | undefined {
  const { thinking, thinking_off } = target.deployment.traits ?? {}
  const effort = efforts.find(name => name === body.reasoning_effort)
  if (!effort || !thinking) return undefined
  if (effort === 'none') return thinking_off === false ? undefined : { type: 'disabled' }
  // A forced tool call and thinking are mutually exclusive.
  if (isForced) return undefined
  if (thinking === 'adaptive') return { type: 'adaptive' }
  // After tool calls and their results, a budget requires the turn's original thinking.
  const lastAnswer = body.messages.findLast(message => message.role === 'assistant')
  if (lastAnswer?.tool_calls?.length && thinkingBlocks(lastAnswer).length === 0) return undefined
  const budget = Math.min(budgetTokens[effort], Math.floor(maxTokens * 0.8))
  return budget < minBudgetTokens ? undefined : { type: 'enabled', budget_tokens: budget }
}

/** The effort as Claude has it. */
export function claudeEffort(effort: string): string {
  return effort === 'minimal' ? 'low' : effort
}
