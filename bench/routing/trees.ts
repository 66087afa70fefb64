import { randomOf } from './random.ts'

/** Small steps, and leaves that hold enough prompts to stand for more than themselves. */
const boosting = { trees: 60, learningRate: 0.05, minLeafRows: 60, shrinkage: 20, cueShare: 0.5 }
/** Thresholds tried for each cue: its quantiles. */
const binCount = 24
/** The threshold of a branch that is not split. */
const aboveAll = 1e9
/** Leaves are whole numbers of this unit. */
const leafUnit = 1e-5

type Bins = { thresholds: number[]; ofRow: Uint8Array }
type Split = { cue: number; bin: number; gain: number }

/**
 * Fits boosted regression trees of depth two to the targets by least squares, and returns them as `Ranking` describes.
 * `inputs` are the rows' cues. Each tree may use a random half of the cues, drawn with a fixed seed: equal inputs give
 * equal trees.
 */
export function boost(inputs: Float64Array[], targets: number[]): number[][] {
  const { trees, learningRate, shrinkage, cueShare } = boosting
  const random = randomOf(1)
  const bins = binsOf(inputs)
  const residuals = Float64Array.from(targets, target => target / leafUnit)
  const everything = Int32Array.from(targets, (_, row) => row)
  subtract(residuals, everything, meanOf(residuals, everything, 0))
  return Array.from({ length: trees }, () => {
    const cues = bins.map((_, cue) => cue).filter(() => random() < cueShare)
    const root = bestSplit(bins, residuals, everything, cues)
    const branches = partsOf(bins, everything, root)
    const splits = branches.map(rows => bestSplit(bins, residuals, rows, cues))
    const leaves = branches.flatMap((rows, i) => partsOf(bins, rows, splits[i]!))
    const values = leaves.map(rows => {
      const value = Math.round(learningRate * meanOf(residuals, rows, shrinkage))
      subtract(residuals, rows, value)
      return value
    })
    return [root, ...splits].flatMap(({ cue, bin }) => [cue, bins[cue]!.thresholds[bin] ?? aboveAll]).concat(values)
  })
}

function binsOf(inputs: Float64Array[]): Bins[] {
  return Array.from(inputs[0]!, (_, cue) => {
    const sorted = Float64Array.from(inputs, input => input[cue]!).sort()
    const at = (i: number) => Number(sorted[Math.floor((i * sorted.length) / binCount)]!.toFixed(3))
    const thresholds = [...new Set(Array.from({ length: binCount - 1 }, (_, i) => at(i + 1)))]
    const binOf = (value: number) => thresholds.filter(threshold => value >= threshold).length
    return { thresholds, ofRow: Uint8Array.from(inputs, input => binOf(input[cue]!)) }
  })
}

/** The split that reduces the squared error most; one that puts every row on the lower side when none is allowed. */
function bestSplit(bins: Bins[], residuals: Float64Array, rows: Int32Array, cues: number[]): Split {
  const { minLeafRows, shrinkage } = boosting
  let best: Split = { cue: 0, bin: binCount, gain: 0 }
  let total = 0
  for (const row of rows) total += residuals[row]!
  const fitOf = (sum: number, count: number) => sum ** 2 / (count + shrinkage)
  for (const cue of cues) {
    const { thresholds, ofRow } = bins[cue]!
    const sums = new Float64Array(binCount + 1)
    const counts = new Int32Array(binCount + 1)
    for (const row of rows) {
      sums[ofRow[row]!]! += residuals[row]!
      counts[ofRow[row]!]!++
    }
    let sum = 0
    let count = 0
    for (let bin = 0; bin < thresholds.length; bin++) {
      sum += sums[bin]!
      count += counts[bin]!
      if (count < minLeafRows || rows.length - count < minLeafRows) continue
      const gain = fitOf(sum, count) + fitOf(total - sum, rows.length - count) - fitOf(total, rows.length)
      if (gain > best.gain) best = { cue, bin, gain }
    }
  }
  return best
}

/** The rows below the threshold of a split, and the others. */
function partsOf(bins: Bins[], rows: Int32Array, { cue, bin }: Split): [Int32Array, Int32Array] {
  const { ofRow } = bins[cue]!
  return [rows.filter(row => ofRow[row]! <= bin), rows.filter(row => ofRow[row]! > bin)]
}

function meanOf(values: Float64Array, rows: Int32Array, shrinkage: number): number {
  let sum = 0
  for (const row of rows) sum += values[row]!
  return sum / Math.max(1, rows.length + shrinkage)
}

function subtract(values: Float64Array, rows: Int32Array, amount: number): void {
  for (const row of rows) values[row]! -= amount
}
