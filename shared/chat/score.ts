import type { Mode } from '../keys/policy.ts'

/** What a tenfold price weighs: three points on one trade-off. */
const priceWeight: Record<Mode, number> = { cost: 0.3, balanced: 0.06, quality: 0.012 }
/** What the whole range of quality weighs for the most trivial and for the hardest prompt. */
const qualityWeight = { trivial: 0.35, hard: 1 }
/** What a tenfold wait for the first byte weighs; nobody's latency is known until somebody was asked. */
const latencyWeight = 0.02
const usualLatencyMs = 1_000

export type Scored = { quality: number; costNano: number; latencyMs: number | null }

/**
 * How well a model suits a prompt of a difficulty from 0 to 1: higher is better. Only the weight of the price depends on
 * the mode, so a mode never chooses a dearer model than the next better mode does.
 */
export function scoreOf({ quality, costNano, latencyMs }: Scored, mode: Mode, difficulty: number): number {
  const worth = qualityWeight.trivial + (qualityWeight.hard - qualityWeight.trivial) * difficulty
  const price = priceWeight[mode] * Math.log10(1 + costNano)
  const wait = latencyWeight * Math.log10(1 + (latencyMs ?? usualLatencyMs) / 1_000)
  return worth * (quality / 100) - price - wait
}
