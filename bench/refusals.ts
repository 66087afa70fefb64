// What some first refusals cost a batch: `node bench/refusals.ts [options]`, see README.md. Linux only.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { countAnswers, create, type GatewayAccess, upload, writeInput } from './lib/batch-calls.ts'
import { type BatchRig, openBatchRig } from './lib/batch-rig.ts'
import { readOptions } from './lib/options.ts'
import { keepResults } from './lib/own-stores.ts'
import { pinSelf } from './lib/processes.ts'
import type { Behaviour } from './lib/request.ts'

const { values: options } = readOptions({
  lines: 800,
  refusals: 16,
  concurrency: 128,
  'latency-ms': 20,
  'worker-cpus': '0',
  'load-cpus': '1',
})
const lineBytes = 1_024
const completedWithinMs = 300_000
const pollMs = 50

type Batch = { status: string; output_file_id: string | null }

async function completed({ url, key }: GatewayAccess, id: string): Promise<Batch> {
  const headers = { authorization: `Bearer ${key}` }
  for (const deadline = Date.now() + completedWithinMs; Date.now() < deadline; await sleep(pollMs)) {
    const batch = (await (await fetch(`${url}/v1/batches/${id}`, { headers })).json()) as Batch
    if (batch.status === 'completed') return batch
  }
  throw new Error(`the batch is not completed after ${completedWithinMs / 1_000} s`)
}

/** Seconds from the creation of a batch to its end, with a limiter that has no state yet. */
async function run(rig: BatchRig, redis: Redis, behaviour: Behaviour): Promise<number> {
  const input = join(rig.folder, 'input.jsonl')
  await writeInput(input, behaviour, options.lines, lineBytes)
  const fileId = await upload(rig.gateway, input)
  await redis.del('lane:bench')
  const startedMs = performance.now()
  const { output_file_id: outputId } = await completed(rig.gateway, await create(rig.gateway, fileId))
  const seconds = (performance.now() - startedMs) / 1_000
  const answers = await countAnswers(rig.gateway, outputId!)
  if (answers !== options.lines) throw new Error(`${answers} of ${options.lines} lines are answered`)
  return seconds
}

if (process.platform !== 'linux') throw new Error('it reads /proc and pins processes: it runs on Linux only')
pinSelf(options['load-cpus'])
const plain = { latencyMs: options['latency-ms'], chunks: 1, intervalMs: 0 }
const refusing = { ...plain, refusals: options.refusals }
const rig = await openBatchRig({
  behaviours: [plain, refusing],
  concurrency: options.concurrency,
  workerProcessors: options['worker-cpus'],
  profileFolder: null,
})
const redis = new Redis(rig.stores.env.REDIS_URL!)
try {
  await run(rig, redis, plain) // Warms up.
  const plainSeconds = await run(rig, redis, plain)
  const refusedSeconds = await run(rig, redis, refusing)
  const ratio = refusedSeconds / plainSeconds
  console.log(
    `${options.lines} lines: ${plainSeconds.toFixed(2)} s; with ${options.refusals} first refusals ${refusedSeconds.toFixed(2)} s: ${ratio.toFixed(2)} times`,
  )
  await rig.stores.booked()
  keepResults('refusals', { options, plainSeconds, refusedSeconds })
} finally {
  redis.disconnect()
  await rig.stop()
}
