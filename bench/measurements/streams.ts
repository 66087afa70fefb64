import { drive } from '../drive.ts'
import { type Behaviour, chatBody } from '../lib/request.ts'
import type { Row } from '../report.ts'
import type { Column } from '../rounds.ts'
import { added, type Bench, divided, type Measurement, own, paired, ratio, rowOf } from './measurement.ts'

const shape = { streams: 500, interval: 100, chunks: 50, seconds: 4 }
const warmShape = { streams: 300, interval: 20, chunks: 50, seconds: 8 }
export const firstChunkP50 = added('first chunk p50 − bare ms', 'firstChunkP50Us', 1e-3)

export const streamColumns: Column[] = [
  own('chunks/s', 0, 'chunksPerSecond'),
  own('CPU µs / chunk', 1, 'cpuUsPerChunk'),
  ratio('CPU ÷ bare', 'cpuUsPerChunk', 2),
  own('helpers %', 0, 'helperShare', 100),
  firstChunkP50,
  added('first chunk p99 − bare ms', 'firstChunkP99Us', 1e-3),
  added('chunk p99 − bare ms', 'delayP99Us', 1e-3),
  own('subject cores', 2, 'cores'),
  own('RSS MB', 0, 'residentKib', 1 / 1024),
  own('failed', 0, 'failed'),
]

/** How the upstream behaves for streams of a shape. */
export function behaviourOf({ interval, chunks }: { interval: number; chunks: number }): Behaviour {
  return { latencyMs: 0, chunks, intervalMs: interval }
}

/** What a chunk of an event stream costs and how late it comes. */
export const streams: Measurement = { behaviours: [warmShape, shape].map(behaviourOf), measure }

async function measure(bench: Bench): Promise<Row[]> {
  const { rig } = bench
  const run = async (name: string, what: typeof shape) =>
    drive(rig, await rig.subject(name), 'streams', { body: chatBody(behaviourOf(what), true) }, what)
  const mode = {
    cases: [`${shape.streams} streams, a chunk each ${shape.interval} ms`],
    columns: streamColumns,
    warm: async (name: string) => {
      await run(name, warmShape)
    },
    measure: (name: string) => run(name, shape),
  }
  const subjects = bench.subjects
  const slices = await paired(bench, 'streams', mode, subjects)
  const work = `${shape.streams} streams, a chunk each ${shape.interval} ms`
  return [
    rowOf(slices, subjects[0]!, divided('cpuUsPerChunk'), {
      work: `${work}: CPU per chunk ÷ bare`,
      unit: '',
      decimals: 2,
      target: { max: 1.2 },
    }),
    rowOf(slices, subjects[0]!, firstChunkP50.of, {
      work: `${work}: first chunk over bare, p50`,
      unit: 'ms',
      decimals: 2,
      target: { max: 0.8 },
    }),
  ]
}
