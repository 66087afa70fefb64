import { maxPromptTokens } from '../catalog/traits.ts'
import type { Features } from '../kinds/features.ts'
import type { Target } from '../providers/contract.ts'

/** Whether a target may take a prompt that another finds too long: it takes longer ones, or is another model of unknown limits. */
export function mayTakeLonger(target: Target, other: Target): boolean {
  const limit = maxPromptTokens(target)
  const otherLimit = maxPromptTokens(other)
  if (limit === null || otherLimit === null) return target.model !== other.model
  return limit > otherLimit
}

/**
 * The targets of a request that leaves the choice to us, with one that takes longer prompts among them where the first may turn
 * out too small. `find` looks for it among the models that were not chosen, the best first.
 */
export function withLarger<O extends { target: Target }>(
  chosen: readonly O[],
  features: Features,
  find: (isLarger: (option: O) => boolean) => O | undefined,
): readonly O[] {
  const [first] = chosen
  const isLarger = ({ target }: O) => mayTakeLonger(target, first!.target)
  if (chosen.length < 2 || !mayOverflow(first!.target, features) || chosen.some(isLarger)) return chosen
  const larger = find(isLarger)
  return larger ? [...chosen.slice(0, -1), larger] : chosen
}

/** Whether a prompt may have more tokens than a target takes: the text has at most as many as bytes. */
function mayOverflow(target: Target, { textTokensBound, promptTokensEstimate, maxTokens }: Features): boolean {
  const limit = maxPromptTokens(target)
  return limit !== null && Math.max(textTokensBound, promptTokensEstimate) + (maxTokens ?? 0) > limit
}
