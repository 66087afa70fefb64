// The benchmark: `npm run bench`, or `node bench/table.ts [options]`, see README.md. Linux only.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { join, relative } from 'node:path'
import { readOptions } from './lib/options.ts'
import { has, pinSelf, root } from './lib/processes.ts'
import { chat } from './measurements/chat.ts'
import { catalogs, organisations, policies } from './measurements/growth.ts'
import { latency } from './measurements/latency.ts'
import type { Measurement } from './measurements/measurement.ts'
import { messages } from './measurements/messages.ts'
import { auto, bodies, connections, dialects, images, keys } from './measurements/more.ts'
import { peers as peerRow } from './measurements/peers.ts'
import { fresh, memory, start } from './measurements/processes.ts'
import { batches, json } from './measurements/programs.ts'
import { rates } from './measurements/rates.ts'
import { streams } from './measurements/streams.ts'
import { peers as known } from './peers/peers.ts'
import { type Row, targetTable } from './report.ts'
import { Rig } from './rig.ts'

const usual: Record<string, Measurement> = { chat, latency, streams, messages, memory, start, batches, json }
const growth = { catalogs, organisations, policies }
const more: Record<string, Measurement> = {
  connections,
  keys,
  bodies,
  auto,
  dialects,
  images,
  fresh,
  rates,
  ...growth,
  peers: peerRow,
}

/** They have processes of their own: they are measured first, while no other subject runs. */
const alone = ['batches', 'json', 'start', 'fresh', 'memory']

const { values: options } = readOptions({
  rows: '',
  more: false,
  print: false,
  subjects: 'gateway',
  peers: 'portkey',
  rounds: 9,
  warm: 40_000,
  'warm-seconds': 20,
  noise: 0.3,
  'subject-cpus': '0',
  'load-cpus': '1',
  prof: false,
})

/** What was measured last, by measurement. */
type Kept = Record<string, { startedAt: string; machine: string; options: object; rows: Row[] }>

const results = join(root, 'bench/results')
const tableFile = join(results, 'table.json')
const machine = `Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model.trim()}`
const startedAt = new Date().toISOString()
const all = { ...usual, ...more }
const names = options.rows === '' ? Object.keys(options.more ? more : usual) : options.rows.split(',')
if (options.print) {
  print(kept())
  process.exit(0)
}
const wantedPeers = options.peers === 'all' ? Object.keys(known) : options.peers.split(',').filter(Boolean)
for (const name of wantedPeers) if (!(name in known)) fail(`--peers takes all, or of ${Object.keys(known).join(', ')}`)
const unknown = names.filter(name => !(name in all))
if (unknown.length > 0) fail(`unknown rows ${unknown.join(', ')}: there are ${Object.keys(all).join(', ')}`)
if (process.platform !== 'linux') fail('the benchmark reads /proc and pins processes: it runs on Linux only')
const ordered = [...alone.filter(name => names.includes(name)), ...names.filter(name => !alone.includes(name))]
const measurements = ordered.map(name => [name, all[name]!] as const)
const behaviours = measurements.flatMap(([, measurement]) => measurement.behaviours)
const profileFolder = options.prof ? join(results, `profiles-${startedAt.replaceAll(':', '-')}`) : null

mkdirSync(results, { recursive: true })
const rig = new Rig({ behaviours, subjectProcessors: pin(), profileFolder })
const interrupted = Promise.withResolvers<never>()
let stopping = false
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    stopping = true
    interrupted.reject(new Error(signal))
  })
const exitCode = await Promise.race([measure(), interrupted.promise]).then(
  isRight => (isRight ? 0 : 1),
  error => {
    console.error(`the run failed: ${(error as Error).message}`)
    return 1
  },
)
await rig.close()
if (profileFolder) console.log(`profiles: node bench/profile.ts ${relative(root, profileFolder)} --skip 0.5`)
process.exit(exitCode)

/** Measures and prints everything; gives whether all could be measured. Throws an Error when the books are wrong. */
async function measure(): Promise<boolean> {
  const { rounds, noise: maxNoise, warm } = options
  const subjects = options.subjects.split(',')
  const peers = await availablePeers()
  const bench = { rig, subjects, peers, rounds, maxNoise, warm, 'warm-seconds': options['warm-seconds'] }
  const measured: Kept = {}
  let isWhole = true
  for (const [name, measurement] of measurements) {
    const fromMs = performance.now()
    try {
      measured[name] = { startedAt, machine, options, rows: await measurement.measure(bench) }
    } catch (error) {
      if (stopping) throw error
      isWhole = false
      console.error(`${name} could not be measured: ${(error as Error).message}`)
    }
    console.error(`${name} took ${((performance.now() - fromMs) / 1e3).toFixed(0)} s`)
  }
  print(measured)
  writeFileSync(tableFile, JSON.stringify({ ...kept(), ...measured }, null, 1))
  console.log(`written to ${relative(root, tableFile)}, beside what earlier runs measured`)
  await checkBooks()
  return isWhole
}

/** The peers to compare with, less those that cannot be installed. */
async function availablePeers(): Promise<string[]> {
  const available: string[] = []
  if (!names.includes('chat') && !names.includes('peers')) return available
  for (const name of wantedPeers)
    await known[name]!.install().then(
      () => available.push(name),
      error => console.error(`without ${name}: ${(error as Error).message}`),
    )
  return available
}

/** What the runs so far measured last, by measurement. */
function kept(): Kept {
  return existsSync(tableFile) ? JSON.parse(readFileSync(tableFile, 'utf8')) : {}
}

function print(measured: Kept): void {
  const rows = Object.keys(all).flatMap(name => measured[name]?.rows ?? [])
  console.log(`\n${targetTable(rows)}\n\n${machine}; medians with quartiles\n`)
}

/** Lets the ledger worker book every usage event. Throws an Error when the books are wrong then. */
async function checkBooks(): Promise<void> {
  if (!rig.stores) return
  const worker = rig.stores.startWorker()
  const events = await rig.stores.booked()
  await worker.stop()
  console.log(`the ledger worker booked ${events} usage events; every invariant of the books holds`)
}

/** Puts this process and all it starts on the load's processors; gives the subject's, or null where that cannot be done. */
function pin(): string | null {
  if (availableParallelism() > 1 && has('taskset')) {
    pinSelf(options['load-cpus'])
    return options['subject-cpus']
  }
  console.error('nothing is pinned: that takes taskset and two processors. Ratios will mean less.')
  return null
}

function fail(message: string): never {
  console.error(message)
  process.exit(2)
}
