// Learns shared/kinds/difficulty-weights.json: `node bench/routing/train.ts --data labelled.jsonl.gz`. The data, which is
// not in this repository: {subject, prompt, weak, strong} a line, 40 MMLU subjects and 400 GSM8K problems with whether
// Mixtral-8x7B and GPT-4-1106 answered them correctly, from the cached evaluation results of the RouteLLM project
// (Apache-2.0; MMLU and GSM8K are MIT). See README.md.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DifficultyWeights } from '../../shared/kinds/difficulty.ts'
import { cueNames } from '../../shared/kinds/prompt-cues.ts'
import { readOptions } from '../lib/options.ts'
import { readRows } from './data.ts'
import { crossValidated, fitBest, partitionSeeds } from './folds.ts'
import { meanFigures } from './metrics.ts'

const output = join(import.meta.dirname, '../../shared/kinds/difficulty-weights.json')
const columns = 120
const { values: options } = readOptions({ data: '' })
if (!options.data) {
  console.error('node bench/routing/train.ts --data <labelled.jsonl.gz>')
  process.exit(2)
}
const rows = readRows(options.data)
console.log(`cross-validated over whole subjects, mean of ${partitionSeeds.length} partitions`)
console.table(
  meanFigures(
    rows,
    partitionSeeds.map(seed => crossValidated(rows, seed)),
  ),
)
const { weights, ridge } = fitBest(rows)
const byWeight = cueNames.toSorted((a, b) => weights.cues[b].weight - weights.cues[a].weight)
console.log(`trained on all of it with ridge ${ridge}; weights from hard to easy, in 1/1000 per deviation`)
console.log(byWeight.map(name => `${name} ${(1_000 * weights.cues[name].weight).toFixed(1)}`).join(', '))
writeFileSync(output, textOf(weights))

/** As the formatter of this repository would have it: a cue a line, and quantiles as many as fit on one. */
function textOf({ cues, quantiles }: DifficultyWeights): string {
  const cueLines = cueNames.map(name => {
    const { mean, deviation, weight } = cues[name]
    return `    "${name}": { "mean": ${mean}, "deviation": ${deviation}, "weight": ${weight} }`
  })
  const lines: string[] = []
  for (const text of quantiles.map((quantile, i) => `${quantile}${i < quantiles.length - 1 ? ',' : ''}`)) {
    const line = lines.at(-1)
    if (line && `${line} ${text}`.length <= columns) lines[lines.length - 1] = `${line} ${text}`
    else lines.push(`    ${text}`)
  }
  return `{\n  "cues": {\n${cueLines.join(',\n')}\n  },\n  "quantiles": [\n${lines.join('\n')}\n  ]\n}\n`
}
