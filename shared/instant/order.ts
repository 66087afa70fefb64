import { rate, scoreOf } from '../chat/score.ts'
import type { Mode } from '../keys/policy.ts'
import type { Target } from '../providers/contract.ts'
import type { Services } from '../services.ts'

/** Targets one request may be sent to. */
const mostTargets = 5
/** What is asked of images and sound is neither trivial nor the hardest there is. */
const difficulty = 0.5

/**
 * The targets to try in order: by quality, price and how they do now, as the mode weighs them. `costNano`: what the request
 * may cost at a target. Equals keep the catalog's order.
 */
export function inOrder(
  { upstreams }: Services,
  mode: Mode,
  targets: readonly Target[],
  costNano: (target: Target) => number,
): Target[] {
  const rated = targets.map(target => {
    const figures = upstreams.figures(target)
    return { target, score: scoreOf(rate(target.model.quality ?? 0, costNano(target), figures, difficulty), mode) }
  })
  return rated
    .sort((a, b) => b.score - a.score)
    .slice(0, mostTargets)
    .map(({ target }) => target)
}
