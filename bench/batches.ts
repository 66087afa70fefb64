// A whole batch on one worker process against the same calls without a gateway: `node bench/batches.ts [options]`, see
// README.md. Linux only.
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import { countAnswers, create, download, upload, writeInput } from './lib/batch-calls.ts'
import { type BatchRig, openBatchRig } from './lib/batch-rig.ts'
import { readOptions } from './lib/options.ts'
import { keepResults } from './lib/own-stores.ts'
import { followPeaks } from './lib/peaks.ts'
import { machineCpuSeconds, ownCpuSeconds } from './lib/proc.ts'
import { output, pinSelf, root } from './lib/processes.ts'
import { spread } from './lib/statistics.ts'

const { values: options } = readOptions({
  lines: 50_000,
  'line-bytes': 1_024,
  'file-line-bytes': 4_096,
  rounds: 5,
  concurrency: 64,
  'latency-ms': 20,
  'warm-lines': 5_000,
  prof: false,
  'worker-cpus': '0',
  'load-cpus': '1',
})
const behaviour = { latencyMs: options['latency-ms'], chunks: 1, intervalMs: 0 }
const completedWithinMs = 900_000
const settleMs = 2_000
const pollMs = 50
const mib = 1_024 * 1_024

type Figures = Record<string, number>
type Row = {
  status: string
  errors: unknown
  output_file_id: string
  in_progress_at: Date
  finalizing_at: Date
  completed_at: Date
}

/** Opens direct connections to the stores. */
async function openWindow({ stores }: BatchRig) {
  const db = new pg.Client({ connectionString: stores.env.DATABASE_URL! })
  await db.connect()
  const redis = new Redis(stores.env.REDIS_URL!)
  const number = async (sql: string) => Number((await db.query(sql)).rows[0].n)
  const ofRedis = async (section: string, name: string) =>
    Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(await redis.info(section))?.[1])
  return {
    postgresMb: async () => (await number('SELECT pg_database_size(current_database()) AS n')) / mib,
    transactions: () => number('SELECT xact_commit AS n FROM pg_stat_database WHERE datname = current_database()'),
    redisMb: async () => (await ofRedis('memory', 'used_memory')) / mib,
    /** Those inside scripts, too. */
    redisCommands: () => ofRedis('stats', 'total_commands_processed'),
    batch: async (id: string) => (await db.query('SELECT * FROM batches WHERE id = $1', [id])).rows[0] as Row,
    async close() {
      redis.disconnect()
      await db.end()
    },
  }
}
type Window = Awaited<ReturnType<typeof openWindow>>

/** The same calls from a process of their own on the worker's processors. */
async function direct(rig: BatchRig, input: string): Promise<{ seconds: number; cpuSeconds: number }> {
  const files = ['--input', input, '--output', join(rig.folder, 'direct.jsonl')]
  const to = ['--upstream', rig.upstreamUrl, '--concurrency', String(options.concurrency)]
  const warm = ['--warm', String(options['warm-lines'])]
  const program = [process.execPath, 'bench/subjects/direct.ts', ...files, ...to, ...warm]
  const text = await output(['taskset', '--cpu-list', options['worker-cpus'], ...program])
  return JSON.parse(text)
}

async function untilCompleted(window: Window, id: string): Promise<Row> {
  for (const deadline = Date.now() + completedWithinMs; Date.now() < deadline; await sleep(pollMs)) {
    const row = await window.batch(id)
    if (row.status === 'completed') return row
    if (['failed', 'expired', 'cancelled'].includes(row.status))
      throw new Error(`the batch is ${row.status}: ${JSON.stringify(row.errors)}`)
  }
  throw new Error(`the batch is not completed after ${completedWithinMs / 1_000} s`)
}

/** Runs one batch from an uploaded input and checks that each line is answered once. */
async function run(rig: BatchRig, window: Window, inputFileId: string, lines: number): Promise<Figures> {
  const idle = { workerMb: rig.residentMb('worker'), redisMb: await window.redisMb(), pgMb: await window.postgresMb() }
  const counted = { transactions: await window.transactions(), redisCommands: await window.redisCommands() }
  const peaks = followPeaks({ workerMb: () => rig.residentMb('worker'), redisMb: window.redisMb })
  const cpuBefore = rig.cpu()
  const machineBefore = machineCpuSeconds() - ownCpuSeconds()
  const createdMs = Date.now()
  const row = await untilCompleted(window, await create(rig.gateway, inputFileId))
  const noiseSeconds = machineCpuSeconds() - ownCpuSeconds() - machineBefore
  const { workerMb, redisMb } = await peaks.stop()
  const cpuAfter = rig.cpu()
  const answers = await countAnswers(rig.gateway, row.output_file_id)
  if (answers !== lines) throw new Error(`${answers} of ${lines} lines are answered`)
  const seconds = (fromMs: number, to: Date) => (to.getTime() - fromMs) / 1_000
  const wall = seconds(createdMs, row.completed_at)
  return {
    wall,
    validating: seconds(createdMs, row.in_progress_at),
    running: seconds(row.in_progress_at.getTime(), row.finalizing_at),
    sealing: seconds(row.finalizing_at.getTime(), row.completed_at),
    'worker CPU': cpuAfter.worker - cpuBefore.worker,
    'Postgres CPU': cpuAfter.postgres - cpuBefore.postgres,
    'Redis CPU': cpuAfter.redis - cpuBefore.redis,
    'upstream CPU': cpuAfter.upstream - cpuBefore.upstream,
    'web CPU': cpuAfter.web - cpuBefore.web,
    // Minus the queries of this measurement.
    'Postgres transactions': (await window.transactions()) - counted.transactions - (wall * 1_000) / pollMs,
    'Redis commands a line': ((await window.redisCommands()) - counted.redisCommands) / lines,
    'noise cores': Math.max(0, noiseSeconds) / wall,
    'worker MB before': idle.workerMb,
    'worker MB peak': workerMb,
    'Redis MB growth': redisMb - idle.redisMb,
    'Postgres MB growth': (await window.postgresMb()) - idle.pgMb,
  }
}

/** How much the web process grows while a large file goes in and out. */
async function largeFile(rig: BatchRig): Promise<Figures> {
  const path = join(rig.folder, 'large.jsonl')
  await writeInput(path, behaviour, options.lines, options['file-line-bytes'])
  const { size } = await stat(path)
  const during = async <T>(work: () => Promise<T>) => {
    await sleep(settleMs)
    const beforeMb = rig.residentMb('web')
    const peaks = followPeaks({ webMb: () => rig.residentMb('web') })
    const startedMs = performance.now()
    const result = await work()
    const seconds = (performance.now() - startedMs) / 1_000
    return { result, growthMb: (await peaks.stop()).webMb - beforeMb, mbPerSecond: size / mib / seconds }
  }
  const taken = await during(() => upload(rig.gateway, path))
  const given = await during(() => download(rig.gateway, taken.result))
  if (given.result !== size) throw new Error(`${given.result} of ${size} bytes came back`)
  return {
    'file MB': size / mib,
    'upload MB/s': taken.mbPerSecond,
    'upload web MB growth': taken.growthMb,
    'download MB/s': given.mbPerSecond,
    'download web MB growth': given.growthMb,
  }
}

/** Rounds in which the same calls without a gateway come before and after each batch. */
async function rounds(rig: BatchRig, window: Window): Promise<Figures[]> {
  const input = join(rig.folder, 'input.jsonl')
  await writeInput(input, behaviour, options.lines, options['line-bytes'])
  const fileId = await upload(rig.gateway, input)
  const measured: Figures[] = []
  let before = await direct(rig, input)
  for (let round = 0; round < options.rounds; round++) {
    const own = await run(rig, window, fileId, options.lines)
    const after = await direct(rig, input)
    const directSeconds = (before.seconds + after.seconds) / 2
    const figures = {
      'wall ÷ direct': own.wall! / directSeconds,
      'running ÷ direct': own.running! / directSeconds,
      'lines/s': options.lines / own.wall!,
      direct: directSeconds,
      'direct CPU': (before.cpuSeconds + after.cpuSeconds) / 2,
      ...own,
    }
    measured.push(figures)
    print(`round ${round + 1}`, [figures])
    before = after
  }
  return measured
}

function print(title: string, all: Figures[]): void {
  console.log(`\n${title}`)
  for (const name of Object.keys(all[0]!)) {
    const { median, min, max } = spread(all.map(figures => figures[name]!))
    const range = all.length > 1 ? `  (${min.toFixed(2)}–${max.toFixed(2)})` : ''
    console.log(`  ${name.padEnd(24)} ${median.toFixed(2).padStart(10)}${range}`)
  }
}

if (process.platform !== 'linux') throw new Error('it reads /proc and pins processes: it runs on Linux only')
pinSelf(options['load-cpus'])
const profileFolder = options.prof ? join(root, 'bench/results/batches') : null
const workerProcessors = options['worker-cpus']
const rig = await openBatchRig({
  behaviours: [behaviour],
  concurrency: options.concurrency,
  workerProcessors,
  profileFolder,
})
const window = await openWindow(rig).catch(async error => {
  await rig.stop()
  throw error
})
try {
  console.log(
    `${options.lines} lines of ${options['line-bytes']} bytes, upstream ${behaviour.latencyMs} ms, ${options.concurrency} in flight: ` +
      `at best ${((options.lines / options.concurrency) * behaviour.latencyMs) / 1_000} s. The worker has processor ${workerProcessors}, ` +
      `the upstream, PostgreSQL, Redis and the web process share ${options['load-cpus']}.`,
  )
  await sleep(settleMs)
  const started = { 'worker MB at start': rig.residentMb('worker'), 'web MB at start': rig.residentMb('web') }
  const warm = join(rig.folder, 'warm.jsonl')
  await writeInput(warm, behaviour, options['warm-lines'], options['line-bytes'])
  await run(rig, window, await upload(rig.gateway, warm), options['warm-lines'])
  const file = await largeFile(rig)
  print('memory', [{ ...started, ...file }])
  const measured = await rounds(rig, window)
  print(`median of ${measured.length} rounds`, measured)
  await rig.stores.booked()
  keepResults('batches', { options, started, file, rounds: measured })
} finally {
  await window.close()
  await rig.stop()
}
