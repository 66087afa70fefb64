import { type Mode, modes } from '../keys/policy.ts'
import type { Figures } from '../providers/health.ts'

/** What a tenfold price weighs: three points on one trade-off. */
const priceWeight: Record<Mode, number> = { cost: 0.15, balanced: 0.055, quality: 0.008 }
/**
 * What the whole range of quality weighs for the most trivial and for the hardest prompt. In between it grows with the
 * square of the difficulty: most models do what most people ask, and only the hard part tells them apart.
 */
const qualityWeight = { trivial: 0.1, hard: 1 }
/** What it weighs when all calls fail; as often as anybody fails now and then is free. */
const failureWeight = 0.5
const usualFailureRate = 0.1
/** What every doubling of the usual wait weighs: only slowness that hurts counts, not the jitter between quick ones. */
const waitWeight = 0.03
const usual = { firstByteMs: 2_000, tokensPerSecond: 20 }

/** A model at a provider on the scale: how good it is for a prompt without its price, and its price in powers of ten. */
export type Rated = { quality: number; merit: number; priceLog: number }

/** Rates a model at a provider for a prompt of a difficulty from 0 to 1. */
export function rate(quality: number, costNano: number, figures: Figures, difficulty: number): Rated {
  const worth = qualityWeight.trivial + (qualityWeight.hard - qualityWeight.trivial) * difficulty ** 2
  return { quality, merit: worth * (quality / 100) - drawback(figures), priceLog: Math.log10(1 + costNano) }
}

/** How well a candidate suits a prompt: higher is better. Only the weight of the price depends on the mode. */
export function scoreOf({ merit, priceLog }: Rated, mode: Mode): number {
  return merit - priceWeight[mode] * priceLog
}

/** What failures and slowness cost; unknown figures are taken for usual ones. */
function drawback({ failureRate, firstByteMs, tokensPerSecond }: Figures): number {
  if (failureRate === 0 && firstByteMs === null && tokensPerSecond === null) return 0
  const failing = failureWeight * Math.max(0, failureRate - usualFailureRate)
  const waits =
    Math.max(0, Math.log2((firstByteMs ?? usual.firstByteMs) / usual.firstByteMs)) +
    Math.max(0, Math.log2(usual.tokensPerSecond / (tokensPerSecond ?? usual.tokensPerSecond)))
  return failing + waitWeight * waits
}

/**
 * The best of some candidates in a mode; `better` tells which of two with the same score comes first, `able` whether one
 * may be chosen at all (asked of the few that come into question only). What a mode chooses is never dearer and never
 * worse in quality than what the next mode would choose, whatever the live figures say: each mode chooses among those that
 * are at least as good as the choice of the mode before it.
 */
export function choose<R extends Rated>(
  candidates: readonly R[],
  mode: Mode,
  better: (a: R, b: R) => number,
  able: (candidate: R) => boolean,
): R | null {
  let open = candidates
  let chosen: R | null = null
  for (const step of modes) {
    const leastQuality: number = chosen?.quality ?? Number.NEGATIVE_INFINITY
    open = open.filter(({ quality }) => quality >= leastQuality)
    chosen = bestOf(open, step, better)
    while (chosen && !able(chosen)) {
      open = open.filter(candidate => candidate !== chosen)
      chosen = bestOf(open, step, better)
    }
    if (step === mode) break
  }
  return chosen
}

function bestOf<R extends Rated>(candidates: readonly R[], mode: Mode, better: (a: R, b: R) => number): R | null {
  let best: R | null = null
  let bestScore = Number.NEGATIVE_INFINITY
  for (const candidate of candidates) {
    const score = scoreOf(candidate, mode)
    if (best && (score < bestScore || (score === bestScore && better(best, candidate) <= 0))) continue
    best = candidate
    bestScore = score
  }
  return best
}

/** How long an answer of so many tokens takes at a provider, in seconds; unknown figures count as slow as bearable. */
export function secondsOf({ firstByteMs, tokensPerSecond }: Figures, outputTokens: number): number {
  return (firstByteMs ?? usual.firstByteMs) / 1_000 + outputTokens / (tokensPerSecond ?? usual.tokensPerSecond)
}
