// Learns shared/routing/difficulty-weights.json: `node bench/routing/train.ts --data labelled.jsonl.gz`. The data, which is
// not in this repository: {subject, prompt, weak, strong} a line, 40 MMLU subjects and 400 GSM8K problems with whether
// Mixtral-8x7B and GPT-4-1106 answered them correctly, from the cached evaluation results of the RouteLLM project
// (Apache-2.0; MMLU and GSM8K are MIT). See README.md.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DifficultyWeights } from '../../shared/routing/difficulty.ts'
import { cueNames } from '../../shared/routing/prompt-cues.ts'
import { readOptions } from '../lib/options.ts'
import { readRows } from './data.ts'
import { learnWeights } from './fit.ts'

const output = join(import.meta.dirname, '../../shared/routing/difficulty-weights.json')
const columns = 120
const { values: options } = readOptions({ data: '' })
if (!options.data) {
  console.error('node bench/routing/train.ts --data <labelled.jsonl.gz>')
  process.exit(2)
}
const weights = learnWeights(readRows(options.data))
const splits = weights.rankings.flatMap(({ trees }) => trees.flatMap(tree => [tree[0]!, tree[2]!, tree[4]!]))
const used = cueNames
  .map((name, cue) => ({ name, count: splits.filter(split => split === cue).length }))
  .sort((a, b) => b.count - a.count)
console.log('splits by cue:', used.map(({ name, count }) => `${name} ${count}`).join(', '))
writeFileSync(output, textOf(weights))

/** As the formatter of this repository would have it: a cue or a tree a line, and of other numbers as many as fit. */
function textOf({ medians, rankings, wordQuantiles, quantiles }: DifficultyWeights): string {
  const medianLines = Object.entries(medians).map(([name, median]) => `    "${name}": ${median}`)
  const rankingTexts = rankings.map(({ trees, quantiles }) => {
    const treeLines = trees.map(tree => `        [${tree.join(', ')}]`)
    return `    {\n      "trees": [\n${treeLines.join(',\n')}\n      ],\n      "quantiles": ${filled(quantiles, 6)}\n    }`
  })
  return `{
  "medians": {
${medianLines.join(',\n')}
  },
  "rankings": [
${rankingTexts.join(',\n')}
  ],
  "wordQuantiles": ${filled(wordQuantiles, 2)},
  "quantiles": ${filled(quantiles, 2)}
}
`
}

function filled(numbers: number[], indent: number): string {
  const lines: string[] = []
  for (const text of numbers.map((number, i) => `${number}${i < numbers.length - 1 ? ',' : ''}`)) {
    const line = lines.at(-1)
    if (line && `${line} ${text}`.length <= columns) lines[lines.length - 1] = `${line} ${text}`
    else lines.push(`${' '.repeat(indent + 2)}${text}`)
  }
  return `[\n${lines.join('\n')}\n${' '.repeat(indent)}]`
}
