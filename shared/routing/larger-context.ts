import { maxPromptTokens } from '../catalog/traits.ts'
import type { Target } from '../providers/contract.ts'
import type { Features } from './features.ts'

/**
 * Whether a target may accept a prompt that is too long for another: its limit is higher, or it is another model and a
 * limit is unknown.
 */
export function hasLargerContext(target: Target, other: Target): boolean {
  const limit = maxPromptTokens(target)
  const otherLimit = maxPromptTokens(other)
  if (limit === null || otherLimit === null) return target.model !== other.model
  return limit > otherLimit
}

/**
 * The chosen targets of an `auto` request, with one of a larger context added if the first may be too small.
 * `findOption` searches the models that were not chosen, best first.
 */
export function addLargerContext<O extends { target: Target }>(
  chosen: readonly O[],
  features: Features,
  findOption: (isLarger: (option: O) => boolean) => O | undefined,
): readonly O[] {
  const [first] = chosen
  const isLarger = ({ target }: O) => hasLargerContext(target, first!.target)
  if (chosen.length < 2 || !mayOverflow(first!.target, features) || chosen.some(isLarger)) return chosen
  const larger = findOption(isLarger)
  return larger ? [...chosen.slice(0, -1), larger] : chosen
}

/** Whether a prompt may exceed a target's limit: its text has at most as many tokens as bytes. */
function mayOverflow(target: Target, { textTokensBound, promptTokensEstimate, maxTokens }: Features): boolean {
  const limit = maxPromptTokens(target)
  return limit !== null && Math.max(textTokensBound, promptTokensEstimate) + (maxTokens ?? 0) > limit
}
