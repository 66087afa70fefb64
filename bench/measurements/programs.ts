import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { output, root } from '../lib/processes.ts'
import type { Row } from '../report.ts'
import type { Bench, Measurement } from './measurement.ts'

const wallOverDirect = 'wall ÷ direct'

/** A batch against the same calls without a gateway: bench/batches.ts, which has stores and processes of its own. */
export const batches: Measurement = { behaviours: [], measure: measureBatches }

async function measureBatches({ rounds }: Bench): Promise<Row[]> {
  console.log(await output([process.execPath, 'bench/batches.ts', '--rounds', String(rounds)]))
  const kept = JSON.parse(readFileSync(join(root, 'bench/results/batches.json'), 'utf8')) as {
    rounds: Record<string, number>[]
  }
  const values = kept.rounds.map(round => round[wallOverDirect]!)
  return [
    { work: 'a batch of 50,000 lines: wall ÷ direct undici', unit: '', decimals: 2, target: { max: 1.15 }, values },
  ]
}

/** Hostile bodies: bench/json.ts, whose last line says how long they blocked the event loop at most. */
export const json: Measurement = { behaviours: [], measure: measureJson }

async function measureJson(): Promise<Row[]> {
  const program = 'bench/json.ts'
  const row = { work: 'hostile JSON: longest block of the event loop', unit: 'ms', decimals: 0, target: { max: 100 } }
  if (!existsSync(join(root, program))) return [{ ...row, values: [] }]
  const text = await output([process.execPath, program])
  console.log(text)
  const { longestBlockMs } = JSON.parse(text.trimEnd().split('\n').at(-1)!) as { longestBlockMs: number }
  return [{ ...row, values: [longestBlockMs] }]
}
