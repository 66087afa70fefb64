// The benchmark: `node bench/run.ts <mode> [options]`, see README.md. Linux only.
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { readOptions } from './lib/options.ts'
import { pinSelf, root } from './lib/processes.ts'
import { plans } from './modes.ts'
import { tables } from './report.ts'
import { Rig } from './rig.ts'
import { alternate, type Slice } from './rounds.ts'

const { values: options, positionals } = readOptions({
  subjects: 'gateway',
  reference: 'bare',
  rounds: 5,
  seconds: 5,
  connections: 64,
  rates: '200,800',
  latencies: '0',
  shapes: '500x100x50,2000x200x50',
  memory: '200x1000x20,3500x1000x20',
  worker: 'after',
  noise: 0.3,
  'subject-cpus': '0',
  'load-cpus': '1',
  prof: false,
})
const results = join(root, 'bench/results')
const startedAt = new Date().toISOString()

const [name = ''] = positionals
const plan = plans[name]?.(options)
if (!plan) fail(`name a mode: ${Object.keys(plans).join(', ')}`)
if (process.platform !== 'linux') fail('the benchmark reads /proc and pins processes: it runs on Linux only')
if (name === 'throughput' && !has('wrk')) fail('throughput needs wrk (Debian: apt-get install wrk)')
if (!['after', 'during', 'none'].includes(options.worker)) fail('--worker takes after, during or none')
const subjectProcessors = pin()
const subjects = options.subjects.split(',')
const usesGateway = [options.reference, ...subjects].some(subject => subject.startsWith('gateway'))
const profileFolder = options.prof ? join(results, `${name}-${startedAt.replaceAll(':', '-')}`) : null

mkdirSync(results, { recursive: true })
const rig = new Rig({ behaviours: plan.behaviours, gateway: usesGateway, subjectProcessors, profileFolder })
const interrupted = Promise.withResolvers<never>()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.reject(new Error(signal)))
const exitCode = await Promise.race([rig.open().then(measure), interrupted.promise]).then(
  () => 0,
  error => {
    console.error(`the run failed: ${(error as Error).message}`)
    return 1
  },
)
await rig.close()
if (profileFolder) console.log(`profiles: node bench/profile.ts ${relative(root, profileFolder)}`)
process.exit(exitCode)

async function measure(): Promise<void> {
  let worker = options.worker === 'during' ? rig.stores?.startWorker() : undefined
  const mode = plan!.mode(rig)
  const slices = await alternate(mode, {
    reference: options.reference,
    subjects,
    rounds: options.rounds,
    mostNoise: options.noise,
    report: progress,
  })
  console.log(`\n${name}, ${options.rounds} rounds\n\n${tables(mode.columns, slices)}`)
  const file = join(results, `${name}.json`)
  writeFileSync(file, JSON.stringify({ mode: name, options, node: process.version, startedAt, slices }, null, 1))
  console.log(`written to ${relative(root, file)}`)
  if (options.worker === 'none' || !rig.stores) return
  worker ??= rig.stores.startWorker()
  const events = await rig.stores.booked()
  await worker.stop()
  console.log(`the ledger worker booked the last ${events} usage events; every invariant of the books holds`)
}

function progress({ subject, which, round, own, noise }: Slice): void {
  const figures = Object.entries(own).map(([figure, value]) => `${figure} ${Number(value.toPrecision(4))}`)
  console.error(`${subject}, ${which}, round ${round + 1}: ${figures.join(', ')}, noise ${noise.toFixed(2)}`)
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

function has(program: string): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

function fail(message: string): never {
  console.error(message)
  process.exit(2)
}
