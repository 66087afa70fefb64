import { type DifficultyWeights, learnedScore, scaled } from '../../shared/kinds/difficulty.ts'
import { type CueName, cueNames } from '../../shared/kinds/prompt-cues.ts'
import { bySubject, isMisjudged, type Row } from './data.ts'

/** In every subject part of what only the weak model answered is an answer of the strong one that was not recognised. */
const lossWeight = 0.5
const quantileCount = 20
const digits = 5

/**
 * Learns weights by ridge regression of the gain on the scaled cues: 1 where only the strong model knows the answer, less
 * than nothing where only the weak one does. `ridge` is the penalty per row.
 */
export function learnWeights(rows: Row[], ridge: number): DifficultyWeights {
  const clean = bySubject(rows)
    .filter(subject => !isMisjudged(subject))
    .flat()
  const scales = cueNames.map(name => scaleOf(clean, name))
  const inputs = clean.map(({ cues }) => Float64Array.from(cueNames, (name, i) => scaled(cues[name], scales[i]!)))
  const targets = clean.map(({ weak, strong }) => Number(!weak && strong) - lossWeight * Number(weak && !strong))
  const mean = targets.reduce<number>((sum, target) => sum + target, 0) / targets.length
  const matrix = cueNames.map(() => new Float64Array(cueNames.length))
  const vector = new Float64Array(cueNames.length)
  for (const [row, input] of inputs.entries())
    for (let i = 0; i < input.length; i++) {
      vector[i]! += input[i]! * (targets[row]! - mean)
      for (let j = 0; j <= i; j++) matrix[i]![j]! += input[i]! * input[j]!
    }
  for (let i = 0; i < vector.length; i++) matrix[i]![i]! += ridge * clean.length
  const solution = solve(matrix, vector)
  const cues = Object.fromEntries(
    cueNames.map((name, i) => [name, { ...scales[i]!, weight: rounded(solution[i]!) }]),
  ) as DifficultyWeights['cues']
  return { cues, quantiles: quantilesOf(rows, cues) }
}

function scaleOf(rows: Row[], name: CueName): { mean: number; deviation: number } {
  const values = rows.flatMap(({ cues }) => cues[name] ?? [])
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length
  return { mean: rounded(mean), deviation: Math.max(10 ** -digits, rounded(Math.sqrt(variance))) }
}

/** The scores between which equally many rows lie, the ends included. */
function quantilesOf(rows: Row[], cues: DifficultyWeights['cues']): number[] {
  const scores = rows.map(row => learnedScore(row.cues, { cues, quantiles: [] })).sort((a, b) => a - b)
  return Array.from({ length: quantileCount + 1 }, (_, i) =>
    rounded(scores[Math.round((i * (scores.length - 1)) / quantileCount)]!),
  )
}

/** Solves `matrix · x = vector` by Cholesky's decomposition of a positive definite matrix, its lower half. Overwrites both. */
function solve(matrix: Float64Array[], vector: Float64Array): Float64Array {
  const size = vector.length
  const dot = (a: Float64Array, b: Float64Array, end: number) => {
    let sum = 0
    for (let k = 0; k < end; k++) sum += a[k]! * b[k]!
    return sum
  }
  for (let i = 0; i < size; i++) {
    const row = matrix[i]!
    for (let j = 0; j < i; j++) row[j] = (row[j]! - dot(row, matrix[j]!, j)) / matrix[j]![j]!
    row[i] = Math.sqrt(row[i]! - dot(row, row, i))
    vector[i] = (vector[i]! - dot(row, vector, i)) / row[i]!
  }
  for (let i = size - 1; i >= 0; i--) {
    for (let k = i + 1; k < size; k++) vector[i]! -= matrix[k]![i]! * vector[k]!
    vector[i]! /= matrix[i]![i]!
  }
  return vector
}

function rounded(value: number): number {
  return Number(value.toFixed(digits))
}
