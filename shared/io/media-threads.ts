import { Worker } from 'node:worker_threads'
import { GatewayError } from '../base/errors.ts'
import type { MediaLength, RangeFile } from './media-file.ts'
import type { FromThread, ToThread } from './media-thread.ts'
import type { DocumentSize } from './pdf.ts'

/** A thread that has nothing to do is ended after this time, and its memory with it. */
const idleMs = 60_000
const waitMs = 30_000
const maxThreads = 2
const maxWaiting = 512
const maxWaitingPerOwner = 128
const maxHeapMb = 256
/** Buffers are outside the heap that V8 limits, so the main thread watches them. */
const maxBufferBytes = 128 * 1024 * 1024
const watchMs = 50
/** A larger piece of a file is no packet of any use; it would be held twice. */
const maxReadBytes = 32 * 1024 * 1024

/** A thread of its own: it does nothing but import what it is told to. */
const start = `import(require('node:worker_threads').workerData).then(({ serve }) => serve())`

type Waiting = { owner: string; take(measurer: Measurer): void }

const idle: Measurer[] = []
let threads = 0
const waiting: Waiting[] = []
/** Whose files are being measured, so that the files of one owner do not keep those of all others waiting. */
const running = new Map<string, number>()

/**
 * Measures a media file on another thread, so that one that was made to take forever holds up nobody: the thread is terminated
 * after `timeoutMs`, beyond 256 MB of heap or 128 MB of buffers. `owner` is whose file it is: waiting files are taken from the
 * owner with the fewest files under way. Null for such a file and for one that cannot be understood. Throws 503 when no thread
 * gets free within 30 s, and what `file.read` throws.
 */
export async function measureMedia(file: RangeFile, timeoutMs: number, owner: string): Promise<MediaLength | null> {
  let fault: { error: unknown } | null = null
  const read = async (start: number, end: number) => {
    if (end - start > maxReadBytes) throw new Error('too large a piece')
    return file.read(start, end).catch(error => {
      fault = { error }
      throw error
    })
  }
  const measured = await withThread(owner, waitMs, measurer =>
    measurer.run(job => ({ kind: 'media', job, bytes: file.bytes }), read, timeoutMs),
  )
  if (fault) throw (fault as { error: unknown }).error
  if (measured) return measured.result as MediaLength | null
  const message = 'Too many files are being measured. Try again shortly.'
  throw new GatewayError('service_unavailable', message, { headers: { 'retry-after': '5' } })
}

/** Measures a PDF on another thread, with the same limits. Null as well when no thread gets free within `timeoutMs`. */
export async function measurePdf(bytes: Uint8Array, timeoutMs: number, owner: string): Promise<DocumentSize | null> {
  const read = () => Promise.reject(new Error('a document is sent whole'))
  const measured = await withThread(owner, timeoutMs, measurer =>
    measurer.run(job => ({ kind: 'document', job, bytes }), read, timeoutMs),
  )
  return (measured?.result ?? null) as DocumentSize | null
}

/** Undefined when no thread gets free in time. */
async function withThread<T>(
  owner: string,
  waitMs: number,
  work: (measurer: Measurer) => Promise<T>,
): Promise<{ result: T } | undefined> {
  const measurer = await take(owner, waitMs)
  if (!measurer) return undefined
  running.set(owner, (running.get(owner) ?? 0) + 1)
  try {
    return { result: await work(measurer) }
  } finally {
    const others = running.get(owner)! - 1
    if (others > 0) running.set(owner, others)
    else running.delete(owner)
    giveBack(measurer)
  }
}

function take(owner: string, waitMs: number): Measurer | null | Promise<Measurer | null> {
  const free = idle.pop()
  if (free) return free
  if (threads < maxThreads) {
    threads++
    return new Measurer()
  }
  const own = waiting.filter(entry => entry.owner === owner).length
  if (waiting.length >= maxWaiting || own >= maxWaitingPerOwner) return null
  return new Promise(resolve => {
    const entry: Waiting = {
      owner,
      take(measurer) {
        clearTimeout(timer)
        resolve(measurer)
      },
    }
    const timer = setTimeout(() => {
      waiting.splice(waiting.indexOf(entry), 1)
      resolve(null)
    }, waitMs)
    waiting.push(entry)
  })
}

function giveBack(measurer: Measurer): void {
  const next = nextWaiting()
  if (next) {
    next.take(measurer)
    return
  }
  idle.push(measurer)
  measurer.retireAfter(idleMs, () => {
    idle.splice(idle.indexOf(measurer), 1)
    threads--
  })
}

/** The first file of the owner with the fewest files under way. */
function nextWaiting(): Waiting | undefined {
  const underWay = ({ owner }: Waiting) => running.get(owner) ?? 0
  const [next] = waiting.toSorted((a, b) => underWay(a) - underWay(b))
  if (next) waiting.splice(waiting.indexOf(next), 1)
  return next
}

type Result = Extract<FromThread, { kind: 'done' }>['result']
type Read = RangeFile['read']

/** One thread at a time, started when there is something to measure; one file at a time. */
class Measurer {
  #worker: Worker | null = null
  #jobs = 0
  #retiring: NodeJS.Timeout | undefined

  /** Null as well when the thread dies of the file or takes too long. */
  async run(task: (job: number) => ToThread, read: Read, timeoutMs: number): Promise<Result> {
    clearTimeout(this.#retiring)
    const worker = (this.#worker ??= open())
    const job = ++this.#jobs
    const { promise, resolve } = Promise.withResolvers<Result | 'unusable'>()
    const gone = () => resolve('unusable')
    const timer = setTimeout(gone, timeoutMs)
    const watch = setInterval(() => void exceedsBuffers(worker).then(exceeds => exceeds && gone()), watchMs)
    const hear = (message: FromThread) => {
      // What it read ahead of another file is of no use any more.
      if (message.job !== job) return
      if (message.kind === 'done') resolve(message.result)
      else void answer(worker, read, message)
    }
    worker.on('message', hear).on('exit', gone)
    worker.ref()
    send(worker, task(job))
    const result = await promise
    clearTimeout(timer)
    clearInterval(watch)
    worker.off('message', hear).off('exit', gone)
    worker.unref()
    if (result !== 'unusable') return result
    await this.#end()
    return null
  }

  retireAfter(delayMs: number, retired: () => void): void {
    this.#retiring = setTimeout(() => {
      void this.#end()
      retired()
    }, delayMs).unref()
  }

  /** Its memory is free before the next thread takes some. */
  async #end(): Promise<void> {
    const worker = this.#worker
    this.#worker = null
    await worker?.terminate()
  }
}

function open(): Worker {
  const workerData = new URL('./media-thread.ts', import.meta.url).href
  const resourceLimits = { maxOldGenerationSizeMb: maxHeapMb, maxYoungGenerationSizeMb: 16 }
  const worker = new Worker(start, { eval: true, workerData, resourceLimits, env: {}, name: 'media' })
  return worker.on('error', () => {}) // It ends after it, and that is heard.
}

/** Never rejects: a thread that has ended says so by its `exit` event. */
async function exceedsBuffers(worker: Worker): Promise<boolean> {
  const heap = await worker.getHeapStatistics().catch(() => null)
  return heap !== null && heap.external_memory > maxBufferBytes
}

async function answer(worker: Worker, read: Read, { id, start, end }: Extract<FromThread, { kind: 'read' }>) {
  try {
    send(worker, { kind: 'data', id, bytes: await read(start, end) })
  } catch {
    send(worker, { kind: 'fault', id })
  }
}

/** Bytes are copied and handed over: of a part of a buffer the whole buffer would be copied. */
function send(worker: Worker, message: ToThread): void {
  if ('bytes' in message && typeof message.bytes !== 'number') {
    const bytes = new Uint8Array(message.bytes)
    worker.postMessage({ ...message, bytes }, [bytes.buffer])
  } else worker.postMessage(message)
}
