import { type DifficultyWeights, difficultyOf, learnedScore } from '../../shared/kinds/difficulty.ts'
import { bySubject, type Row, requestOf } from './data.ts'
import { learnWeights } from './fit.ts'
import { figuresOf } from './metrics.ts'

/** One partition of the subjects into folds each. */
export const partitionSeeds = [1, 2, 3, 4, 5]
const foldCount = 8
const innerFoldCount = 5
const ridges = [0.05, 0.2, 0.5, 1, 2]

/** Learns weights with the ridge that orders held-out subjects of these very rows best. */
export function fitBest(rows: Row[]): { weights: DifficultyWeights; ridge: number } {
  const apgrOf = (ridge: number) => {
    const score = ({ cues }: Row, weights: DifficultyWeights) => learnedScore(cues, weights)
    return figuresOf(
      rows,
      heldOut(rows, innerFoldCount, 0, train => learnWeights(train, ridge), score),
    ).apgr
  }
  const [best] = ridges.map(ridge => ({ ridge, apgr: apgrOf(ridge) })).sort((a, b) => b.apgr - a.apgr)
  return { weights: learnWeights(rows, best!.ridge), ridge: best!.ridge }
}

/**
 * The difficulty of every row by weights that never saw its subject, nor chose their ridge by it: whole subjects are
 * dealt to folds in an order that `seed` shuffles.
 */
export function crossValidated(rows: Row[], seed: number): Map<Row, number> {
  const score = (row: Row, weights: DifficultyWeights) => difficultyOf(requestOf(row.prompt), weights)
  return heldOut(rows, foldCount, seed, train => fitBest(train).weights, score)
}

function heldOut(
  rows: Row[],
  folds: number,
  seed: number,
  learn: (train: Row[]) => DifficultyWeights,
  score: (row: Row, weights: DifficultyWeights) => number,
): Map<Row, number> {
  const subjects = shuffled(bySubject(rows), seed)
  const scores = new Map<Row, number>()
  for (let fold = 0; fold < folds; fold++) {
    const weights = learn(subjects.filter((_, i) => i % folds !== fold).flat())
    for (const row of subjects.filter((_, i) => i % folds === fold).flat()) scores.set(row, score(row, weights))
  }
  return scores
}

/** Fisher-Yates with a small seeded generator (mulberry32). */
function shuffled<T>(values: T[], seed: number): T[] {
  const result = [...values]
  let state = seed
  const random = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  for (let i = result.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    ;[result[i], result[j]] = [result[j]!, result[i]!]
  }
  return result
}
