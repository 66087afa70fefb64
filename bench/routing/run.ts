// What the router makes of labelled prompts: `node bench/routing/run.ts --data labelled.jsonl.gz`, see README.md.
import { performance } from 'node:perf_hooks'
import { type Mode, modes } from '../../shared/keys/policy.ts'
import { difficultyOf } from '../../shared/routing/difficulty.ts'
import { readOptions } from '../lib/options.ts'
import { spread } from '../lib/statistics.ts'
import { type Row, readRows, requestOf, withoutChoices } from './data.ts'
import { crossValidated, partitionSeeds } from './folds.ts'
import { meanFigures } from './metrics.ts'
import { type Name, type Pair, pairOf, send } from './pair.ts'

const { values: options } = readOptions({ data: '' })
if (!options.data) {
  console.error('node bench/routing/run.ts --data <labelled.jsonl.gz>')
  process.exit(2)
}
const rows = readRows(options.data)
// Every prompt is judged by weights that never saw its subject.
const scorings = partitionSeeds.map(seed => crossValidated(rows, seed))
console.log(`${rows.length} prompts, cross-validated over whole subjects, mean of ${scorings.length} partitions`)
console.table(meanFigures(rows, scorings))
console.log('the same when the maths problems are split between training and test')
const withProblems = partitionSeeds.map(seed => crossValidated(rows, seed, { splitProblems: true }))
console.table(meanFigures(rows, withProblems).slice(0, 3))
console.log('the same questions without their choices, as users ask')
console.table(
  meanFigures(
    rows,
    partitionSeeds.map(seed => crossValidated(rows, seed, { promptOf: withoutChoices })),
  ),
)
console.log('the router’s modes')
console.table(policies(rows, pairOf(rows)))
console.log('strong calls for other pairs of models')
console.table(pairs(rows))
console.log('time per prompt of 4 kB, in milliseconds')
console.table([timesMs()])

type Outcome = { accuracy: number; costUsd: number; strongShare: number }

/** The router's modes beside what needs no router, over all prompts. */
function policies(rows: Row[], pair: Pair) {
  const always = { weak: outcomeOf(rows, pair, () => false), strong: outcomeOf(rows, pair, () => true) }
  const line = (policy: string, outcome: Outcome) => lineOf(policy, outcome, always)
  const table = [line('always cheapest', always.weak), line('always best', always.strong)]
  for (const mode of modes) {
    const outcomes = scorings.map(scores =>
      outcomeOf(rows, pair, row => send(pair, row, mode, scores.get(row)!) === 'strong'),
    )
    const routed = meanOf(outcomes)
    table.push(line(`router, ${mode}`, routed), line('random, same share', mixOf(always, routed.strongShare)))
  }
  const even = scorings.map(scores => {
    const chosen = new Set(rows.toSorted((a, b) => scores.get(b)! - scores.get(a)!).slice(0, rows.length / 2))
    return outcomeOf(rows, pair, row => chosen.has(row))
  })
  table.push(line('hardest half to the best', meanOf(even)), line('random half', mixOf(always, 0.5)))
  return table
}

/** The share of strong calls of each mode, whatever the two models cost and whatever separates their qualities. */
function pairs(rows: Row[]) {
  const shareOf = (pair: Pair, mode: Mode) =>
    meanOf(scorings.map(scores => outcomeOf(rows, pair, row => send(pair, row, mode, scores.get(row)!) === 'strong')))
  return [1, 4, 40].flatMap(gap =>
    [1.2, 30].map(usd => {
      const pair = pairOf(rows, { weak: 50, strong: 50 + gap }, { input: String(usd), output: String(usd) })
      const share = (mode: Mode) => `${(100 * shareOf(pair, mode).strongShare).toFixed(1)} %`
      const line = { 'quality apart': gap, 'price of the strong': usd / 0.6 }
      return { ...line, ...Object.fromEntries(modes.map(mode => [mode, share(mode)])) }
    }),
  )
}

function outcomeOf(rows: Row[], { costUsd }: Pair, isStrong: (row: Row) => boolean): Outcome {
  let correct = 0
  let totalUsd = 0
  let strongCalls = 0
  for (const row of rows) {
    const name = isStrong(row) ? 'strong' : 'weak'
    correct += Number(row[name])
    totalUsd += costUsd(row, name)
    strongCalls += Number(name === 'strong')
  }
  return { accuracy: correct / rows.length, costUsd: totalUsd / rows.length, strongShare: strongCalls / rows.length }
}

function meanOf(outcomes: Outcome[]): Outcome {
  const mean = (key: keyof Outcome) => outcomes.reduce((sum, outcome) => sum + outcome[key], 0) / outcomes.length
  return { accuracy: mean('accuracy'), costUsd: mean('costUsd'), strongShare: mean('strongShare') }
}

/** What to expect of sending a random share to the strong model. */
function mixOf({ weak, strong }: { weak: Outcome; strong: Outcome }, share: number): Outcome {
  const mix = (key: keyof Outcome) => weak[key] + share * (strong[key] - weak[key])
  return { accuracy: mix('accuracy'), costUsd: mix('costUsd'), strongShare: share }
}

function lineOf(policy: string, { accuracy, costUsd, strongShare }: Outcome, { weak, strong }: Record<Name, Outcome>) {
  return {
    policy,
    accuracy: accuracy.toFixed(3),
    PGR: ((accuracy - weak.accuracy) / (strong.accuracy - weak.accuracy)).toFixed(2),
    'USD per 1,000': (1_000 * costUsd).toFixed(2),
    'strong calls': `${(100 * strongShare).toFixed(1)} %`,
  }
}

/** How long the estimate takes for prompts of 4 kB, cut from the labelled ones: for each the median of some rounds. */
function timesMs() {
  const text = rows.map(({ prompt }) => prompt.replaceAll('\n', ' ')).join(' ')
  const requests = Array.from({ length: 500 }, (_, i) => requestOf(text.slice(i * 4_096, (i + 1) * 4_096)))
  for (const request of requests) difficultyOf(request) // The compiler's round.
  const medians = requests.map(request => {
    const rounds = Array.from({ length: 9 }, () => {
      const startedAt = performance.now()
      difficultyOf(request)
      return performance.now() - startedAt
    })
    return spread(rounds).median
  })
  const { median, max } = spread(medians)
  return { prompts: requests.length, median: median.toFixed(3), slowest: max.toFixed(3) }
}
