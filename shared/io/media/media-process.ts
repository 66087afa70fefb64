import { Worker } from 'node:worker_threads'
import type { FromThread, ReadBytes, ToThread } from './media-thread.ts'
import { SharedPiece } from './shared-piece.ts'

/**
 * A child process that measures files on a thread, started by `media-processes.ts`. V8 may end the whole process if a
 * thread runs out of memory faster than it can be stopped: then it ends this one. Its main thread stays responsive
 * whatever the file, so that it exits with its parent, at its memory limit and when a file has used up its processor time.
 */
const maxRssBytes = 400 * 1024 * 1024
const maxHeapMb = 256
const checkMs = 50

/** The limit for the file that is being measured, without the time that the process used before. */
let maxCpuMs = 0
let untilCpuMs = Number.POSITIVE_INFINITY

const piece = new SharedPiece()
/** The thread imports only the module passed as its data. */
const start = `import(require('node:worker_threads').workerData.module).then(({ serve }) => serve())`
const worker = new Worker(start, {
  eval: true,
  workerData: { module: new URL('./media-thread.ts', import.meta.url).href, piece: piece.buffer },
  resourceLimits: { maxOldGenerationSizeMb: maxHeapMb, maxYoungGenerationSizeMb: 16 },
  name: 'media',
})
worker.on('error', () => {}) // The exit event follows.
worker.on('exit', () => process.exit(1))
worker.on('message', (message: FromThread) => {
  if (message.kind === 'begun') untilCpuMs = cpuMs() + maxCpuMs
  if (message.kind === 'done') untilCpuMs = Number.POSITIVE_INFINITY
  process.send!(message)
})
process.on('message', (message: ToThread | ReadBytes) => {
  if (message.kind === 'data') return piece.give(message.bytes)
  maxCpuMs = message.maxCpuMs
  worker.postMessage(message)
})
process.on('disconnect', () => process.exit(0))
setInterval(() => {
  if (process.memoryUsage.rss() > maxRssBytes || cpuMs() > untilCpuMs) process.exit(1)
}, checkMs)

/** The processor time of this process so far. */
function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1_000
}
