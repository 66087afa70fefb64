import { difficultyOf } from '../../shared/routing/difficulty.ts'
import { bySubject, isProblem, type Row, requestOf } from './data.ts'
import { learnWeights } from './fit.ts'
import { shuffled } from './random.ts'

/** One partition of the subjects into folds each. */
export const partitionSeeds = [1, 2, 3, 4, 5]
const foldCount = 8

type Options = {
  /** Deal the maths problems to folds one by one, so that others of their kind are seen in training. */
  splitProblems?: boolean
  /** The prompt to estimate; by default the row's own. */
  promptOf?(row: Row): string
}

/**
 * The difficulty of every row by weights that never saw its subject: whole subjects are dealt to folds in an order that
 * `seed` shuffles.
 */
export function crossValidated(
  rows: Row[],
  seed: number,
  { splitProblems = false, promptOf = row => row.prompt }: Options = {},
): Map<Row, number> {
  const units = bySubject(rows).flatMap(subject =>
    splitProblems && isProblem(subject[0]!) ? subject.map(row => [row]) : [subject],
  )
  const dealt = shuffled(units, seed)
  const scores = new Map<Row, number>()
  for (let fold = 0; fold < foldCount; fold++) {
    const isHeldOut = (_: Row[], i: number) => i % foldCount === fold
    const weights = learnWeights(dealt.filter((unit, i) => !isHeldOut(unit, i)).flat())
    for (const row of dealt.filter(isHeldOut).flat()) scores.set(row, difficultyOf(requestOf(promptOf(row)), weights))
  }
  return scores
}
