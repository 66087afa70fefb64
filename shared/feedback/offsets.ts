/** Offsets of models' qualities that were learned from feedback, by model id. */
export type QualityOffsets = ReadonlyMap<string, number>

/** What feedback says about a model: weighted sums of scores from -1 to 1, and the sums of their weights. */
export type Counters = { explicitSum: number; explicitCount: number; implicitSum: number; implicitCount: number }
export type CountersByModel = ReadonlyMap<string, Counters>

/** The largest offset, in points of quality. */
export const maxOffset = 6
/** The offset of a model whose scores are all 1, and of one whose signals are all worse than usual. */
const points = { explicit: 6, implicit: 6 }
/** The largest offset by signals alone: they are weak evidence. */
const maxImplicit = 1
/**
 * Pseudo-counts. A key's mean counts as much as that of its organisation once it has so many scores; that of the
 * organisation counts half.
 */
const pseudoCounts = { explicit: 10, implicit: 200 }

type Kind = 'explicit' | 'implicit'
const none: Counters = { explicitSum: 0, explicitCount: 0, implicitSum: 0, implicitCount: 0 }

/**
 * The offsets for a key, by its own counters and those of its organisation. Means of few scores are drawn to the mean of the
 * organisation's scores of the same model, and that to the usual score.
 */
export function offsetsOf(key: CountersByModel, organisation: CountersByModel): QualityOffsets {
  const total = totalOf(organisation)
  const baseline = usualScore(total)
  const usualSignal = meanOf(total.implicitSum, total.implicitCount)
  const offsets = new Map<string, number>()
  for (const [model, shared] of organisation) {
    const own = key.get(model) ?? none
    const explicit = shrunkMean(own, shared, 'explicit', baseline)
    const implicit = clamp(points.implicit * shrunkMean(own, shared, 'implicit', usualSignal), maxImplicit)
    const offset = Math.round(clamp(points.explicit * explicit + implicit, maxOffset) * 100) / 100
    if (offset !== 0) offsets.set(model, offset)
  }
  return offsets
}

/**
 * The mean of an organisation's scores, whatever the model, as far as it is above zero: kind scores, and prompts that any
 * model answers, say nothing about one model. Bad scores do, even if one model has all of them.
 */
function usualScore({ explicitSum, explicitCount }: Counters): number {
  return Math.max(0, explicitSum / (explicitCount + pseudoCounts.explicit))
}

/** The mean of a key's scores above a baseline, drawn to that of its organisation, which is drawn to zero. */
function shrunkMean(own: Counters, shared: Counters, kind: Kind, baseline: number): number {
  const pseudo = pseudoCounts[kind]
  const above = (counters: Counters) => counters[`${kind}Sum`] - baseline * counters[`${kind}Count`]
  const prior = above(shared) / (shared[`${kind}Count`] + pseudo)
  return (above(own) + pseudo * prior) / (own[`${kind}Count`] + pseudo)
}

function totalOf(organisation: CountersByModel): Counters {
  const total = { ...none }
  for (const counters of organisation.values())
    for (const name of Object.keys(total) as (keyof Counters)[]) total[name] += counters[name]
  return total
}

function meanOf(sum: number, count: number): number {
  return count === 0 ? 0 : sum / count
}

function clamp(value: number, max: number): number {
  return Math.max(-max, Math.min(max, value))
}
