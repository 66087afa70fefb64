import { canReason, effortRange } from '../../../catalog/traits.ts'
import type { ChatRequest } from '../../../kinds/chat.ts'
import type { Target } from '../../contract.ts'

export type Effort = NonNullable<ChatRequest['reasoning_effort']>

/** From the least to the greatest. */
export const efforts: readonly Effort[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

export function isEffort(name: string): name is Effort {
  return efforts.includes(name as Effort)
}

/**
 * An effort within the model's range; undefined leaves it to the model. Ignored for models without a setting: coding
 * agents send one to every model whose name they do not know.
 */
export function effortWithin(effort: Effort | undefined, target: Target, hasTools: boolean): Effort | undefined {
  const { deployment, model } = target
  if (!effort || !canReason(deployment) || !model.supported_parameters.includes('reasoning_effort')) return undefined
  // The adapter sets the one effort at which such a model takes tools.
  if (deployment.traits?.tools_effort !== undefined && hasTools) return undefined
  const { min, max } = effortRange(target)
  const rank = (name: string) => efforts.indexOf(name as Effort)
  return efforts[Math.min(Math.max(rank(effort), rank(min)), rank(max))]
}
