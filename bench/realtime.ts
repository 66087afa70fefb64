// Realtime sessions through the gateway against a relay without any logic: `node bench/realtime.ts [options]`, see
// README.md. Linux only.
import { join } from 'node:path'
import { readOptions } from './lib/options.ts'
import { keepResults, withOwnStores } from './lib/own-stores.ts'
import { root } from './lib/processes.ts'
import { RealtimeRig } from './lib/realtime-rig.ts'
import { tables } from './report.ts'
import { alternate, type Column, type Slice } from './rounds.ts'

const { values: options } = readOptions({
  model: 'gpt-realtime-2.1',
  idle: 1_000,
  talking: 200,
  rounds: 5,
  seconds: 15,
  noise: 0.3,
  prof: false,
  'subject-cpus': '0',
  'load-cpus': '1',
})

const own = (title: string, name: string, decimals = 2): Column => ({ title, decimals, of: figures => figures[name]! })
const added = (title: string, name: string): Column => ({
  title,
  decimals: 2,
  of: (figures, reference) => figures[name]! - reference[name]!,
})
const columns: Column[] = [
  { title: 'CPU ÷ bare', decimals: 2, of: (figures, bare) => figures.cpuUsPerFrame! / bare.cpuUsPerFrame! },
  own('CPU µs/frame', 'cpuUsPerFrame', 1),
  added('up p50 + ms', 'upP50Ms'),
  added('up p99 + ms', 'upP99Ms'),
  added('down p50 + ms', 'downP50Ms'),
  added('down p99 + ms', 'downP99Ms'),
  own('up p99 ms', 'upP99Ms'),
  own('down p99 ms', 'downP99Ms'),
  own('kB/idle session', 'idleKib', 0),
  own('idle µs/s', 'idleUsPerSecond', 0),
  own('MB in all', 'residentMb', 0),
  own('opens/s', 'opensPerSecond', 0),
  own('frames/s', 'framesPerSecond', 0),
  own('subject cores', 'subjectCores'),
  own('load cores', 'loadCores'),
  own('other cores', 'otherCores'),
]

function progress({ subject, round, own, noise }: Slice): void {
  const figures = Object.entries(own).map(([figure, value]) => `${figure} ${Number(value.toPrecision(4))}`)
  console.error(`${subject}, round ${round + 1}: ${figures.join(', ')}, noise ${noise.toFixed(2)}`)
}

await withOwnStores(options['load-cpus'], async stores => {
  const { model, idle, talking, rounds, seconds, noise } = options
  const profileFolder = options.prof ? join(root, 'bench/results/realtime') : null
  const subjectProcessors = options['subject-cpus']
  const rig = await RealtimeRig.open(stores, { model, idle, talking, seconds, subjectProcessors, profileFolder })
  try {
    const slices = await alternate(
      // Every slice starts its subject afresh, for its memory, and warms it up.
      {
        cases: [`${idle} idle, ${talking} talking`],
        columns,
        warm: async () => {},
        measure: subject => rig.run(subject),
      },
      { reference: 'bare', subjects: ['gateway'], rounds, maxNoise: noise, report: progress },
    )
    console.log(`\n${model}, ${rounds} rounds\n\n${tables(columns, slices)}`)
    const books = await rig.check()
    console.log(
      `nothing is lost or left reserved; $${books.chargedUsd.toFixed(2)} charged for $${books.reportedUsd.toFixed(2)} reported, in ${books.events} parts`,
    )
    keepResults('realtime', { options, books, slices })
  } finally {
    await rig.close()
  }
})
