import { Worker } from 'node:worker_threads'

/**
 * A child process that measures files on a thread, started by `media-processes.ts`. V8 may end the whole process if a
 * thread runs out of memory faster than it can be stopped: then it ends this one. Its main thread stays responsive
 * whatever the file, so that it exits with its parent and at its memory limit.
 */
const maxRssBytes = 400 * 1024 * 1024
const maxHeapMb = 256
const memoryCheckMs = 50

/** The thread imports only the module passed as its data. */
const start = `import(require('node:worker_threads').workerData).then(({ serve }) => serve())`
const worker = new Worker(start, {
  eval: true,
  workerData: new URL('./media-thread.ts', import.meta.url).href,
  resourceLimits: { maxOldGenerationSizeMb: maxHeapMb, maxYoungGenerationSizeMb: 16 },
  name: 'media',
})
worker.on('error', () => {}) // The exit event follows.
worker.on('exit', () => process.exit(1))
worker.on('message', message => process.send!(message))
process.on('message', message => worker.postMessage(message))
process.on('disconnect', () => process.exit(0))
setInterval(() => {
  if (process.memoryUsage.rss() > maxRssBytes) process.exit(1)
}, memoryCheckMs)
