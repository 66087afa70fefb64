import { type Mode, modes } from '../keys/policy.ts'
import type { Figures } from '../providers/health.ts'

/**
 * Set points: of one cheap and one strong model, a mode chooses the strong one for prompts of at least this difficulty.
 * About 10, 31 and 70 of 100 prompts of a broad mix are that hard (`bench/routing/README.md`).
 */
export const setPoints: Record<Mode, number> = { cost: 0.875, balanced: 0.71, quality: 0.33 }
/**
 * The weight of quality grows by this factor (e^3.5 = 33) from the most trivial prompt to the hardest: most models handle
 * most prompts, only hard ones differentiate them. With many models, a mode's choice moves up gradually around its set
 * point, and a trivial prompt gets a better model only if that costs hardly more.
 */
export const steepness = 3.5
/** Weight of the whole price range: that of quality at the set point. */
const priceWeight: Record<Mode, number> = {
  cost: weightOf(setPoints.cost),
  balanced: weightOf(setPoints.balanced),
  quality: weightOf(setPoints.quality),
}

function weightOf(difficulty: number): number {
  return Math.exp(steepness * (difficulty - 1))
}

/** Weight of a failure rate of 1; failures up to the usual rate cost nothing. */
const failureWeight = 0.5
const usualFailureRate = 0.1
/** Weight of each doubling of the usual latency: only significant slowness counts, not jitter between fast targets. */
const waitWeight = 0.03
/** What unknown figures count as. */
export const usual = { firstByteMs: 2_000, tokensPerSecond: 20 }

/**
 * The range of prices and qualities between the cheapest candidate and the best one. Scores depend on the places of
 * candidates in it, so that a set point means the same whatever the models of a catalog cost and whatever separates them.
 */
export type Scale = {
  minPriceLog: number
  priceRange: number
  minQuality: number
  qualityRange: number
  /** Weight of the whole quality range for the prompt. */
  qualityWeight: number
}

/** Ranges where the cheapest candidate is also the best one: a thousandfold price, and points of quality. */
const usualRange = { price: 3, quality: 50 }
/** How far beyond the range a candidate counts: those that are worse or dearer still are all alike. */
const maxBeyond = 0.25
/** Differences of price below this are negligible, so that a free model does not stretch the range: $0.0001. */
const negligibleNano = 100_000

/** What a model at a provider offers. `quality` is the catalog's, `listedQuality`, with what feedback taught. */
type Offer = { quality: number; listedQuality: number; costNano: number }

/**
 * The scale of some candidates, if any, for a prompt of a difficulty from 0 to 1. It depends on the qualities of the catalog:
 * what was learned moves a candidate within the scale, even if there are only two.
 */
export function scaleOf(offers: readonly Offer[], difficulty: number): Scale {
  let [cheapest, best] = [offers[0], offers[0]]
  for (const offer of offers) {
    if (
      offer.costNano < cheapest!.costNano ||
      (offer.costNano === cheapest!.costNano && offer.listedQuality > cheapest!.listedQuality)
    )
      cheapest = offer
    const lead = offer.listedQuality - best!.listedQuality
    if (lead > 0 || (lead === 0 && offer.costNano < best!.costNano)) best = offer
  }
  const minQuality = cheapest?.listedQuality ?? 0
  const minPriceLog = priceLogOf(cheapest?.costNano ?? 0)
  return {
    minPriceLog,
    priceRange: priceLogOf(best?.costNano ?? 0) - minPriceLog || usualRange.price,
    minQuality,
    qualityRange: (best?.listedQuality ?? 0) - minQuality || usualRange.quality,
    qualityWeight: weightOf(difficulty),
  }
}

function priceLogOf(costNano: number): number {
  return Math.log10(negligibleNano + costNano)
}

/** A rated offer: its quality score, which leaves its price out, and its price's place in the scale. */
export type Rated = Offer & { qualityScore: number; normalisedPrice: number }

/** Sets an offer's quality score and normalised price. */
export function rate(offer: Rated, figures: Figures, scale: Scale): void {
  const qualityPlace = Math.max(-maxBeyond, (offer.quality - scale.minQuality) / scale.qualityRange)
  offer.qualityScore = scale.qualityWeight * qualityPlace - penaltyOf(figures)
  offer.normalisedPrice = Math.min(1 + maxBeyond, (priceLogOf(offer.costNano) - scale.minPriceLog) / scale.priceRange)
}

/** The score of a candidate: higher is better. Only the weight of the price depends on the mode. */
export function scoreOf({ qualityScore, normalisedPrice }: Rated, mode: Mode): number {
  return qualityScore - priceWeight[mode] * normalisedPrice
}

/** Penalty for failures and slowness; unknown figures count as usual ones. */
function penaltyOf({ failureRate, firstByteMs, tokensPerSecond }: Figures): number {
  if (failureRate === 0 && firstByteMs === null && tokensPerSecond === null) return 0
  const failurePenalty = failureWeight * Math.max(0, failureRate - usualFailureRate)
  const waitDoublings =
    Math.max(0, Math.log2((firstByteMs ?? usual.firstByteMs) / usual.firstByteMs)) +
    Math.max(0, Math.log2(usual.tokensPerSecond / (tokensPerSecond ?? usual.tokensPerSecond)))
  return failurePenalty + waitWeight * waitDoublings
}

/**
 * Chooses the best candidate in a mode; `compare` orders candidates of equal score, `isEligible` decides whether one
 * may be chosen at all (called for few candidates only). The choice of a mode is never more expensive and never of
 * lower quality than that of the next mode, whatever the live figures: each mode chooses among the candidates at least
 * as good as the choice of the mode before it.
 */
export function chooseBest<R extends Rated>(
  candidates: readonly R[],
  mode: Mode,
  compare: (a: R, b: R) => number,
  isEligible: (candidate: R) => boolean,
): R | null {
  let eligible = candidates
  let chosen: R | null = null
  for (const step of modes) {
    const minQuality: number = chosen?.quality ?? Number.NEGATIVE_INFINITY
    chosen = bestOf(eligible, step, minQuality, compare)
    while (chosen && !isEligible(chosen)) {
      eligible = eligible.filter(candidate => candidate !== chosen)
      chosen = bestOf(eligible, step, minQuality, compare)
    }
    if (step === mode) break
  }
  return chosen
}

function bestOf<R extends Rated>(
  candidates: readonly R[],
  mode: Mode,
  minQuality: number,
  compare: (a: R, b: R) => number,
): R | null {
  let best: R | null = null
  let bestScore = Number.NEGATIVE_INFINITY
  const weight = priceWeight[mode]
  for (const candidate of candidates) {
    const { quality, qualityScore, normalisedPrice } = candidate
    const score = qualityScore - weight * normalisedPrice
    if (quality < minQuality || score < bestScore) continue
    if (best && score === bestScore && compare(best, candidate) <= 0) continue
    best = candidate
    bestScore = score
  }
  return best
}

/** Estimated seconds for an answer of `outputTokens` tokens; unknown figures count as usual ones. */
export function secondsOf({ firstByteMs, tokensPerSecond }: Figures, outputTokens: number): number {
  return (firstByteMs ?? usual.firstByteMs) / 1_000 + outputTokens / (tokensPerSecond ?? usual.tokensPerSecond)
}
