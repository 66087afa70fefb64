import { rate, scoreOf } from '../chat/score.ts'
import type { Mode } from '../keys/policy.ts'
import type { Target } from '../providers/contract.ts'
import type { Services } from '../services.ts'

/** A target, and the most that the request can cost there, in nano-dollars. */
export type Offer = { target: Target; mostNano: number }

/** Targets one request may be sent to. */
const mostTargets = 5
/** What is asked of images and sound is neither trivial nor the hardest there is. */
const difficulty = 0.5

/**
 * The targets to try in order: by quality, price and how they do now, as the mode weighs them. Equals keep the catalog's
 * order.
 */
export function inOrder({ upstreams }: Services, mode: Mode, offers: readonly Offer[]): Offer[] {
  const rated = offers.map(offer => {
    const { target, mostNano } = offer
    const rating = rate(target.model.quality ?? 0, mostNano, upstreams.figures(target), difficulty)
    return { offer, score: scoreOf(rating, mode) }
  })
  return rated
    .sort((a, b) => b.score - a.score)
    .slice(0, mostTargets)
    .map(({ offer }) => offer)
}
