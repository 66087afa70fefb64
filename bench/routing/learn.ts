// What feedback adds to the router's choice: `node bench/routing/learn.ts --data labelled.jsonl.gz`, see README.md.
import { type Counters, type CountersByModel, offsetsOf, type QualityOffsets } from '../../shared/feedback/offsets.ts'
import { steepness } from '../../shared/routing/score.ts'
import { readOptions } from '../lib/options.ts'
import { bySubject, isMisjudged, type Row, readRows } from './data.ts'
import { crossValidated } from './folds.ts'
import { figuresOf } from './metrics.ts'
import { accuraciesOf, type Name, type Pair, pairOf, send } from './pair.ts'
import { randomOf } from './random.ts'

const { values: options } = readOptions({ data: '' })
if (!options.data) {
  console.error('node bench/routing/learn.ts --data <labelled.jsonl.gz>')
  process.exit(2)
}

const keyCount = 200
const keysPerOrganisation = 5
/** Each key asks about so many subjects. */
const subjectsPerKey = 2
/** The share of the answers that are scored, and of these the share whose score is the opposite of what it should be. */
const scored = 0.3
const wrong = 0.15
const requestCounts = [30, 100, 300, 1_000]

const rows = readRows(options.data)
const scores = crossValidated(rows, 1)
const subjects = bySubject(rows)
const giant = subjects.toSorted((a, b) => b.length - a.length)[0]
const pair = pairOf(rows)
console.log(
  `${keyCount} keys of ${subjectsPerKey} subjects each, ${100 * scored} % of the answers scored, ${100 * wrong} % of these wrongly`,
)
for (const [title, chosen] of [
  ['all subjects', subjects],
  ['without the largest and the misjudged subject', subjects.filter(one => one !== giant && !isMisjudged(one))],
] as const) {
  console.log(title)
  console.table(requestCounts.map(count => ({ 'requests of a key': count, ...simulate(chosen, count) })))
}

type Key = { subjects: Row[][]; own: Map<Name, Counters>; shared: Map<Name, Counters> }

/** Lets keys ask and score with one half of the prompts; what they learned is measured with the other half. */
function simulate(subjects: readonly Row[][], requests: number) {
  const random = randomOf(7)
  const pick = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)]!
  const halfOf = (subject: Row[], half: number) => subject.filter((_, index) => index % 2 === half)
  const organisations = Array.from({ length: keyCount / keysPerOrganisation }, () => new Map<Name, Counters>())
  const keys = Array.from({ length: keyCount }, (_, index): Key => {
    const own = Array.from({ length: subjectsPerKey }, () => pick(subjects))
    return { subjects: own, own: new Map(), shared: organisations[index % organisations.length]! }
  })
  for (let round = 0; round < requests; round++) {
    for (const key of keys) {
      const row = pick(halfOf(pick(key.subjects), 0))
      const name = send(pair, row, 'balanced', scores.get(row)!, offsetsOfKey(key))
      if (random() >= scored) continue
      const isGood = row[name] !== random() < wrong
      for (const counters of [key.own, key.shared]) count(counters, name, isGood ? 1 : -1)
    }
  }
  return measure(keys.map(key => ({ rows: key.subjects.flatMap(one => halfOf(one, 1)), learned: offsetsOfKey(key) })))
}

function offsetsOfKey({ own, shared }: Key): QualityOffsets {
  return offsetsOf(own as CountersByModel, shared as CountersByModel)
}

function count(counters: Map<Name, Counters>, name: Name, score: number): void {
  const before = counters.get(name) ?? { explicitSum: 0, explicitCount: 0, implicitSum: 0, implicitCount: 0 }
  const { explicitSum, explicitCount } = before
  counters.set(name, { ...before, explicitSum: explicitSum + score, explicitCount: explicitCount + 1 })
}

/** How well prompts are ordered, and what the mode `balanced` makes of them, without and with what was learned. */
function measure(asked: { rows: Row[]; learned: QualityOffsets }[]) {
  const range = Math.abs(accuraciesOf(rows).strong - accuraciesOf(rows).weak)
  const items = asked.flatMap(({ rows, learned }) => rows.map(row => ({ ...row, row, learned })))
  const plain = new Map(items.map(item => [item, scores.get(item.row)!]))
  // The place of the strong model above the weak one is 1 without offsets; its value grows by the steepness.
  const taught = new Map(
    items.map(item => {
      const lead = (item.learned.get('strong') ?? 0) - (item.learned.get('weak') ?? 0)
      return [item, plain.get(item)! + Math.log(Math.max(0.05, 1 + lead / range)) / steepness]
    }),
  )
  const before = balanced(pair, items, () => null)
  const after = balanced(pair, items, ({ learned }) => learned)
  return {
    'APGR without': round(figuresOf(items, plain).apgr),
    'APGR with': round(figuresOf(items, taught).apgr),
    'strong calls without': before.strong,
    'strong calls with': after.strong,
    'accuracy without': before.accuracy,
    'accuracy with': after.accuracy,
  }
}

type Item = { row: Row; learned: QualityOffsets }

function balanced(pair: Pair, items: readonly Item[], learnedOf: (item: Item) => QualityOffsets | null) {
  let [strong, correct] = [0, 0]
  for (const item of items) {
    const name = send(pair, item.row, 'balanced', scores.get(item.row)!, learnedOf(item))
    strong += Number(name === 'strong')
    correct += Number(item.row[name])
  }
  return { strong: round(strong / items.length), accuracy: round(correct / items.length) }
}

function round(value: number): number {
  return Math.round(value * 1_000) / 1_000
}
