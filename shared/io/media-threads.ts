import { Worker } from 'node:worker_threads'
import { GatewayError } from '../base/errors.ts'
import type { MediaLength, RangeFile } from './media-packets.ts'
import type { FromThread, ToThread } from './media-thread.ts'

/** A thread that has nothing to do is ended after this time, and its memory with it. */
const idleMs = 60_000
const waitMs = 30_000
const mostThreads = 2
const mostHeapMb = 256

/** A thread of its own: it does nothing but import what it is told to. */
const start = `import(require('node:worker_threads').workerData).then(({ serve }) => serve())`

const idle: Measurer[] = []
let threads = 0
const waiting: ((measurer: Measurer) => void)[] = []

/**
 * Measures a file on another thread, so that one that was made to take forever holds up nobody: it is ended after `timeoutMs`
 * or beyond 256 MB. Null for such a file and for one that cannot be understood. Throws 503 when no thread gets free.
 */
export async function measureApart(file: RangeFile, timeoutMs: number): Promise<MediaLength | null> {
  const measurer = await take()
  try {
    return await measurer.measure(file, timeoutMs)
  } finally {
    giveBack(measurer)
  }
}

function take(): Measurer | Promise<Measurer> {
  const free = idle.pop()
  if (free) return free
  if (threads < mostThreads) {
    threads++
    return new Measurer()
  }
  return new Promise((resolve, reject) => {
    const taken = (measurer: Measurer) => {
      clearTimeout(timer)
      resolve(measurer)
    }
    const timer = setTimeout(() => {
      waiting.splice(waiting.indexOf(taken), 1)
      const message = 'Too many files are being measured. Try again shortly.'
      reject(new GatewayError('service_unavailable', message, { headers: { 'retry-after': '5' } }))
    }, waitMs)
    waiting.push(taken)
  })
}

function giveBack(measurer: Measurer): void {
  const next = waiting.shift()
  if (next) next(measurer)
  else {
    idle.push(measurer)
    measurer.retireAfter(idleMs, () => {
      idle.splice(idle.indexOf(measurer), 1)
      threads--
    })
  }
}

/** One thread at a time, started when there is something to measure; one file at a time. */
class Measurer {
  #worker: Worker | null = null
  #files = 0
  #retiring: NodeJS.Timeout | undefined

  async measure(file: RangeFile, timeoutMs: number): Promise<MediaLength | null> {
    clearTimeout(this.#retiring)
    const worker = (this.#worker ??= open())
    const number = ++this.#files
    const { promise, resolve } = Promise.withResolvers<MediaLength | null | 'unusable'>()
    const timer = setTimeout(() => resolve('unusable'), timeoutMs)
    const gone = () => resolve('unusable')
    const hear = (message: FromThread) => {
      // What it read ahead of another file is of no use any more.
      if (message.file !== number) return
      if (message.kind === 'length') resolve(message.length)
      else void answer(worker, file, message)
    }
    worker.on('message', hear).on('exit', gone)
    worker.ref()
    send(worker, { kind: 'measure', file: number, bytes: file.bytes })
    const length = await promise
    clearTimeout(timer)
    worker.off('message', hear).off('exit', gone)
    worker.unref()
    if (length !== 'unusable') return length
    this.#end()
    return null
  }

  retireAfter(delayMs: number, retired: () => void): void {
    this.#retiring = setTimeout(() => {
      this.#end()
      retired()
    }, delayMs).unref()
  }

  #end(): void {
    void this.#worker?.terminate()
    this.#worker = null
  }
}

function open(): Worker {
  const workerData = new URL('./media-thread.ts', import.meta.url).href
  const resourceLimits = { maxOldGenerationSizeMb: mostHeapMb, maxYoungGenerationSizeMb: 16 }
  const worker = new Worker(start, { eval: true, workerData, resourceLimits, env: {}, name: 'media' })
  return worker.on('error', () => {}) // It ends after it, and that is heard.
}

async function answer(worker: Worker, file: RangeFile, { id, start, end }: Extract<FromThread, { kind: 'read' }>) {
  try {
    send(worker, { kind: 'data', id, bytes: await file.read(start, end) })
  } catch {
    send(worker, { kind: 'fault', id })
  }
}

function send(worker: Worker, message: ToThread): void {
  worker.postMessage(message)
}
