import { gainOf, type Labelled, partsOf } from './data.ts'

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
  const gap = gainOf(rows)
  const groups = [...Map.groupBy(rows, row => scores.get(row)!)].sort(([a], [b]) => b - a)
  let recovered = 0
  let area = 0
  let sent = 0
  let cpt = 1
  for (const [, group] of groups) {
    const gain = gainOf(group)
    area += group.length * (recovered + gain / 2)
    if (cpt === 1 && recovered + gain >= gap / 2)
      cpt = (sent + (group.length * (gap / 2 - recovered)) / gain) / rows.length
    recovered += gain
    sent += group.length
  }
  return { apgr: area / rows.length / gap, cpt }
}

/** A table of the figures of each part of the rows, as means over several scorings of them all. */
export function meanFigures<T extends Labelled>(rows: T[], scorings: ReadonlyMap<T, number>[]) {
  const lengths = new Map(rows.map(row => [row, row.prompt.length]))
  return partsOf(rows).map(({ name, rows: some }) => {
    const figures = scorings.map(scores => figuresOf(some, scores))
    const mean = (key: keyof Figures) => figures.reduce((sum, one) => sum + one[key], 0) / figures.length
    return {
      part: name,
      prompts: some.length,
      APGR: mean('apgr').toFixed(3),
      'CPT(50 %)': mean('cpt').toFixed(3),
      'APGR of longest first': figuresOf(some, lengths).apgr.toFixed(3),
    }
  })
}
