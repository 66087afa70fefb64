import { Worker } from 'node:worker_threads'

/**
 * A process of its own that measures files on a thread, started by `media-processes.ts`. V8 may end the whole process when a thread
 * runs out of memory faster than it can be stopped: then it is this one. Its main thread stays responsive whatever the file is,
 * so that it ends with its parent, and when it has taken too much memory.
 */
const maxRssBytes = 400 * 1024 * 1024
const maxHeapMb = 256
const watchMs = 50

/** A thread imports what it is told to and nothing else. */
const start = `import(require('node:worker_threads').workerData).then(({ serve }) => serve())`
const worker = new Worker(start, {
  eval: true,
  workerData: new URL('./media-thread.ts', import.meta.url).href,
  resourceLimits: { maxOldGenerationSizeMb: maxHeapMb, maxYoungGenerationSizeMb: 16 },
  name: 'media',
})
worker.on('error', () => {}) // It ends after it.
worker.on('exit', () => process.exit(1))
worker.on('message', message => process.send!(message))
process.on('message', message => worker.postMessage(message))
process.on('disconnect', () => process.exit(0))
setInterval(() => {
  if (process.memoryUsage.rss() > maxRssBytes) process.exit(1)
}, watchMs)
