import type { Mode } from '../keys/policy.ts'
import type { Platform } from '../platform.ts'
import type { Target } from '../providers/contract.ts'
import { rate, scaleOf, scoreOf } from '../routing/score.ts'

/** A target and the maximum cost of the request there, in nano-dollars. */
export type Offer = { target: Target; maxNano: number }

/** Maximum targets of one request. */
const maxTargets = 5
/** Assumed difficulty of image and audio requests. */
const difficulty = 0.5

/** Ranks targets by quality, price and live figures, weighted by the mode. Ties keep the catalog's order. */
export function rankOffers({ upstreams }: Platform, mode: Mode, offers: readonly Offer[]): Offer[] {
  const priced = offers.map(offer => {
    const quality = offer.target.model.quality ?? 0
    return { offer, quality, listedQuality: quality, costNano: offer.maxNano, qualityScore: 0, normalisedPrice: 0 }
  })
  const scale = scaleOf(priced, difficulty)
  for (const one of priced) rate(one, upstreams.figures(one.offer.target), scale)
  return priced
    .sort((a, b) => scoreOf(b, mode) - scoreOf(a, mode))
    .slice(0, maxTargets)
    .map(({ offer }) => offer)
}
