import { type DifficultyWeights, learnedScore, type Ranking, sumOf } from '../../shared/routing/difficulty.ts'
import { type CueName, type Cues, cueNames, writeCues } from '../../shared/routing/prompt-cues.ts'
import { quantile } from '../lib/statistics.ts'
import { bySubject, isMisjudged, type Row } from './data.ts'
import { boost } from './trees.ts'

/** In every subject part of what only the weak model answered is an answer of the strong one that was not recognised. */
const lossWeight = 0.5
const quantileCount = 20
const digits = 4

/**
 * Learns weights by boosted trees of the gain: 1 where only the strong model knows the answer, less than 0 where only
 * the weak one does. One ranking learns the gain within each subject, which carries over to other subjects better, the
 * other the whole gain.
 */
export function learnWeights(rows: Row[]): DifficultyWeights {
  const subjects = bySubject(rows).filter(subject => !isMisjudged(subject))
  const clean = subjects.flat()
  const medians = mediansOf(clean)
  const inputs = clean.map(({ cues }) => inputOf(cues, medians))
  const gains = clean.map(targetOf)
  const centredGains = subjects.flatMap(subject => {
    const mean = subject.reduce((sum, row) => sum + targetOf(row), 0) / subject.length
    return subject.map(row => targetOf(row) - mean)
  })
  const rankings = [centredGains, gains].map((targets): Ranking => {
    const trees = boost(inputs, targets)
    return { trees, quantiles: quantilesOf(inputs.map(input => sumOf(trees, input))) }
  })
  const words = cueNames.indexOf('words')
  const weights = { medians, rankings, wordQuantiles: quantilesOf(inputs.map(input => input[words]!)), quantiles: [] }
  return { ...weights, quantiles: quantilesOf(clean.map(({ cues }) => learnedScore(cues, weights))) }
}

/** The cues as numbers in the order of `cueNames`. */
function inputOf(cues: Cues, medians: DifficultyWeights['medians']): Float64Array {
  const input = new Float64Array(cueNames.length)
  writeCues(cues, medians, input)
  return input
}

function targetOf({ weak, strong }: Row): number {
  return Number(!weak && strong) - lossWeight * Number(weak && !strong)
}

function mediansOf(rows: Row[]): DifficultyWeights['medians'] {
  const median = (name: CueName) => {
    const values = rows.map(({ cues }) => cues[name]).filter(value => value !== null)
    return values.length > 0 ? rounded(quantile(Float64Array.from(values).sort(), 0.5)) : 0
  }
  return Object.fromEntries(cueNames.map(name => [name, median(name)])) as DifficultyWeights['medians']
}

/** The values between which equally many lie, the ends included. */
function quantilesOf(values: number[]): number[] {
  const sorted = Float64Array.from(values).sort()
  return Array.from({ length: quantileCount + 1 }, (_, i) =>
    rounded(sorted[Math.round((i * (sorted.length - 1)) / quantileCount)]!),
  )
}

function rounded(value: number): number {
  return Number(value.toFixed(digits))
}
