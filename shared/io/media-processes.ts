import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { GatewayError } from '../base/errors.ts'
import type { MediaLength, RangeFile } from './media-file.ts'
import type { FromThread, ToThread } from './media-thread.ts'
import type { DocumentSize } from './pdf.ts'

/** A process that has nothing to do is ended after this time, and its memory with it. */
const idleMs = 60_000
const waitMs = 30_000
const maxProcesses = 2
const maxWaiting = 512
const maxWaitingPerOwner = 128
/** A larger piece of a file is no packet of any use; it would be held twice. */
const maxReadBytes = 32 * 1024 * 1024

type Waiting = { owner: string; take(measurer: Measurer): void }

const idle: Measurer[] = []
let processes = 0
const waiting: Waiting[] = []
/** Whose files are being measured, so that the files of one owner do not keep those of all others waiting. */
const running = new Map<string, number>()

/**
 * Measures a media file in another process, so that one that was made to take forever holds up nobody: the process is killed
 * after `timeoutMs`, and ends beyond 256 MB of heap or 400 MB in all. `owner` is whose file it is: waiting files are taken from the
 * owner with the fewest files under way. Null for such a file and for one that cannot be understood. Throws 503 when no process
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
  const measured = await withProcess(owner, waitMs, measurer =>
    measurer.run(job => ({ kind: 'media', job, bytes: file.bytes }), read, timeoutMs),
  )
  if (fault) throw (fault as { error: unknown }).error
  if (measured) return measured.result as MediaLength | null
  const message = 'Too many files are being measured. Try again shortly.'
  throw new GatewayError('service_unavailable', message, { headers: { 'retry-after': '5' } })
}

/** Measures a PDF in another process, with the same limits. Null as well when no process gets free within `timeoutMs`. */
export async function measurePdf(bytes: Uint8Array, timeoutMs: number, owner: string): Promise<DocumentSize | null> {
  const read = () => Promise.reject(new Error('a document is sent whole'))
  const measured = await withProcess(owner, timeoutMs, measurer =>
    measurer.run(job => ({ kind: 'document', job, bytes }), read, timeoutMs),
  )
  return (measured?.result ?? null) as DocumentSize | null
}

/** Undefined when no process gets free in time. */
async function withProcess<T>(
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
  if (processes < maxProcesses) {
    processes++
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
    processes--
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

/** One process at a time, started when there is something to measure; one file at a time. */
class Measurer {
  #worker: ChildProcess | null = null
  #jobs = 0
  #retiring: NodeJS.Timeout | undefined

  /** Null as well when the process dies of the file or takes too long. */
  async run(task: (job: number) => ToThread, read: Read, timeoutMs: number): Promise<Result> {
    clearTimeout(this.#retiring)
    if (!this.#worker?.connected) this.#worker = open()
    const worker = this.#worker
    const job = ++this.#jobs
    const { promise, resolve } = Promise.withResolvers<Result | 'unusable'>()
    const gone = () => resolve('unusable')
    const timer = setTimeout(gone, timeoutMs)
    const hear = (message: FromThread) => {
      // What it read ahead of another file is of no use any more.
      if (message.job !== job) return
      if (message.kind === 'done') resolve(message.result)
      else void answer(worker, read, message)
    }
    worker.on('message', hear).on('exit', gone)
    hold(worker, true)
    send(worker, task(job))
    const result = await promise
    clearTimeout(timer)
    worker.off('message', hear).off('exit', gone)
    hold(worker, false)
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

  /** Its memory is free before the next process takes some. */
  async #end(): Promise<void> {
    const worker = this.#worker
    this.#worker = null
    if (worker?.exitCode !== null || worker.signalCode !== null) return
    const ended = once(worker, 'exit')
    worker.kill('SIGKILL')
    await ended
  }
}

function open(): ChildProcess {
  const child = fork(fileURLToPath(new URL('./media-process.ts', import.meta.url)), {
    env: {},
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  return child.on('error', () => {}) // It ends after it, and that is heard.
}

/** Whether the parent waits for a child that has nothing to do. */
function hold(child: ChildProcess, held: boolean): void {
  const how = held ? 'ref' : 'unref'
  child[how]()
  child.channel?.[how]()
}

async function answer(worker: ChildProcess, read: Read, { id, start, end }: Extract<FromThread, { kind: 'read' }>) {
  try {
    send(worker, { kind: 'data', id, bytes: await read(start, end) })
  } catch {
    send(worker, { kind: 'fault', id })
  }
}

/** A child that has ended says so by its `exit` event. */
function send(worker: ChildProcess, message: ToThread): void {
  if (worker.connected) worker.send(message, () => {})
}
