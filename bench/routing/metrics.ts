import { quantile } from '../lib/statistics.ts'
import { bySubject, gainOf, type Labelled, partsOf } from './data.ts'
import { randomOf } from './random.ts'

export type Figures = {
  /** Mean of PGR over the shares 0…1; 0.5 is random. */
  apgr: number
  /** The smallest share of strong calls that recovers half of the gap; 0.5 is random. */
  cpt: number
}

/**
 * RouteLLM's figures of an ordering: PGR(share) = (accuracy of the mix − weak) / (strong − weak) when the `share` of
 * prompts with the highest scores go to the strong model. Among equal scores the order is random: its expectation.
 */
export function figuresOf<T extends Labelled>(rows: T[], scores: ReadonlyMap<T, number>): Figures {
  return figuresOfCounts(orderOf(rows, scores), null)
}

/** Rows from the highest score to the lowest, as indices into `rows`: a group for each score, with the rows' gains. */
type Order = { indices: Int32Array; gains: Int8Array }[]

function orderOf<T extends Labelled>(rows: T[], scores: ReadonlyMap<T, number>): Order {
  const groups = [...Map.groupBy(rows.keys(), i => scores.get(rows[i]!)!)].sort(([a], [b]) => b - a)
  return groups.map(([, indices]) => ({
    indices: Int32Array.from(indices),
    gains: Int8Array.from(indices, i => gainOf([rows[i]!])),
  }))
}

/** The figures when each row occurs as often as `counts` says; null = once. */
function figuresOfCounts(order: Order, counts: Int32Array | null): Figures {
  const steps = order.map(({ indices, gains }) => {
    let [size, gain] = [0, 0]
    for (let i = 0; i < indices.length; i++) {
      const count = counts === null ? 1 : counts[indices[i]!]!
      size += count
      gain += count * gains[i]!
    }
    return { size, gain }
  })
  const total = steps.reduce((sum, { size }) => sum + size, 0)
  const gap = steps.reduce((sum, { gain }) => sum + gain, 0)
  let [recovered, area, sent, cpt] = [0, 0, 0, 1]
  for (const { size, gain } of steps) {
    area += size * (recovered + gain / 2)
    if (cpt === 1 && recovered + gain >= gap / 2) cpt = (sent + (size * (gap / 2 - recovered)) / gain) / total
    recovered += gain
    sent += size
  }
  return { apgr: area / total / gap, cpt }
}

const resamples = 1_000

/** What is drawn with replacement: prompts, or whole subjects with all their prompts. */
type Unit = 'prompt' | 'subject'

/**
 * Bootstrap intervals of 95 % of the APGR of some scorings (their mean), and of its lead over the prompts' length in
 * the same resamples.
 */
function intervalsOf<T extends Labelled>(rows: T[], scorings: ReadonlyMap<T, number>[], unit: Unit) {
  const random = randomOf(1)
  const indexOf = new Map(rows.map((row, i) => [row, i]))
  const units = (unit === 'prompt' ? rows.map(row => [row]) : bySubject(rows)).map(some =>
    some.map(row => indexOf.get(row)!),
  )
  const orders = scorings.map(scores => orderOf(rows, scores))
  const lengthOrder = orderOf(rows, lengthsOf(rows))
  const apgrs = new Float64Array(resamples)
  const leads = new Float64Array(resamples)
  for (let round = 0; round < resamples; round++) {
    const counts = new Int32Array(rows.length)
    for (let drawn = 0; drawn < units.length; drawn++)
      for (const i of units[Math.floor(random() * units.length)]!) counts[i]!++
    apgrs[round] = orders.reduce((sum, order) => sum + figuresOfCounts(order, counts).apgr, 0) / orders.length
    leads[round] = apgrs[round]! - figuresOfCounts(lengthOrder, counts).apgr
  }
  const interval = (values: Float64Array) =>
    [0.025, 0.975].map(q => quantile(values.toSorted(), q).toFixed(3)).join(' to ')
  return { apgr: interval(apgrs), lead: interval(leads) }
}

function lengthsOf<T extends Labelled>(rows: T[]): Map<T, number> {
  return new Map(rows.map(row => [row, row.prompt.length]))
}

/** A table of the figures of each part of the rows, as means over several scorings of them all, with their intervals. */
export function meanFigures<T extends Labelled>(rows: T[], scorings: ReadonlyMap<T, number>[]) {
  return partsOf(rows).map(({ name, rows: some }) => {
    const figures = scorings.map(scores => figuresOf(some, scores))
    const mean = (key: keyof Figures) => figures.reduce((sum, one) => sum + one[key], 0) / figures.length
    const ofLength = figuresOf(some, lengthsOf(some)).apgr
    const byPrompt = intervalsOf(some, scorings, 'prompt')
    const bySubjects =
      new Set(some.map(({ subject }) => subject)).size > 1 ? intervalsOf(some, scorings, 'subject') : null
    return {
      part: name,
      prompts: some.length,
      APGR: mean('apgr').toFixed(3),
      'by prompt': byPrompt.apgr,
      'by subject': bySubjects?.apgr ?? '',
      'CPT(50 %)': mean('cpt').toFixed(3),
      'longest first': ofLength.toFixed(3),
      lead: (mean('apgr') - ofLength).toFixed(3),
      'lead by prompt': byPrompt.lead,
      'lead by subject': bySubjects?.lead ?? '',
    }
  })
}
