import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { GatewayError } from '../../base/errors.ts'
import type { MediaLength, RangeFile } from './media-file.ts'
import type { FromThread, ToThread } from './media-thread.ts'
import type { DocumentSize } from './pdf.ts'

/** An idle process is ended after this time to release its memory. */
const idleMs = 60_000
const waitMs = 30_000
const maxProcesses = 2
const maxWaiting = 512
const maxWaitingPerOwner = 128
/** No useful packet is larger; it would be held twice. */
const maxReadBytes = 32 * 1024 * 1024

type QueuedRequest = { owner: string; take(measurer: Measurer): void }

const idle: Measurer[] = []
let processes = 0
const waiting: QueuedRequest[] = []
/** Running measurements by owner, so that the files of one owner do not delay those of all others. */
const running = new Map<string, number>()

/**
 * Measures a media file in a child process, so that a malicious file blocks no one else: the process is killed after
 * `timeoutMs`, and exits beyond 256 MB of heap or 400 MB in total. `owner` is the file's owner: queued files are taken
 * from the owner with the fewest running. Null if the process was killed, and if the file cannot be parsed. Throws 503
 * if no process becomes available within 30 s, and what `file.read` throws.
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

/**
 * Measures a PDF in a child process, with the same limits. Also null if no process becomes available within
 * `timeoutMs`.
 */
export async function measurePdf(bytes: Uint8Array, timeoutMs: number, owner: string): Promise<DocumentSize | null> {
  const read = () => Promise.reject(new Error('a document is sent whole'))
  const measured = await withProcess(owner, timeoutMs, measurer =>
    measurer.run(job => ({ kind: 'document', job, bytes }), read, timeoutMs),
  )
  return (measured?.result ?? null) as DocumentSize | null
}

/** Runs `work` with a process; undefined if none becomes available in time. */
async function withProcess<T>(
  owner: string,
  waitMs: number,
  work: (measurer: Measurer) => Promise<T>,
): Promise<{ result: T } | undefined> {
  const measurer = await acquireProcess(owner, waitMs)
  if (!measurer) return undefined
  running.set(owner, (running.get(owner) ?? 0) + 1)
  try {
    return { result: await work(measurer) }
  } finally {
    const others = running.get(owner)! - 1
    if (others > 0) running.set(owner, others)
    else running.delete(owner)
    releaseProcess(measurer)
  }
}

function acquireProcess(owner: string, waitMs: number): Measurer | null | Promise<Measurer | null> {
  const free = idle.pop()
  if (free) return free
  if (processes < maxProcesses) {
    processes++
    return new Measurer()
  }
  const own = waiting.filter(entry => entry.owner === owner).length
  if (waiting.length >= maxWaiting || own >= maxWaitingPerOwner) return null
  return new Promise(resolve => {
    const entry: QueuedRequest = {
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

function releaseProcess(measurer: Measurer): void {
  const next = dequeue()
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

/** Removes and returns the first file of the owner with the fewest files running. */
function dequeue(): QueuedRequest | undefined {
  const underWay = ({ owner }: QueuedRequest) => running.get(owner) ?? 0
  const [next] = waiting.toSorted((a, b) => underWay(a) - underWay(b))
  if (next) waiting.splice(waiting.indexOf(next), 1)
  return next
}

type Result = Extract<FromThread, { kind: 'done' }>['result']
type Read = RangeFile['read']

/** Manages one child process, started on demand; measures one file at once. */
class Measurer {
  #worker: ChildProcess | null = null
  #jobs = 0
  #retiring: NodeJS.Timeout | undefined

  /** Runs a measurement. Also null if the process dies or exceeds `timeoutMs`. */
  async run(task: (job: number) => ToThread, read: Read, timeoutMs: number): Promise<Result> {
    clearTimeout(this.#retiring)
    if (!this.#worker?.connected) this.#worker = startProcess()
    const worker = this.#worker
    const job = ++this.#jobs
    const { promise, resolve } = Promise.withResolvers<Result | 'unusable'>()
    const onUnusable = () => resolve('unusable')
    const timer = setTimeout(onUnusable, timeoutMs)
    const onMessage = (message: FromThread) => {
      // Ignores prefetches of an earlier file.
      if (message.job !== job) return
      if (message.kind === 'done') resolve(message.result)
      else void answerRead(worker, read, message)
    }
    worker.on('message', onMessage).on('exit', onUnusable)
    setKeepsParentAlive(worker, true)
    send(worker, task(job))
    const result = await promise
    clearTimeout(timer)
    worker.off('message', onMessage).off('exit', onUnusable)
    if (result === 'unusable') await this.#end()
    setKeepsParentAlive(worker, false)
    return result === 'unusable' ? null : result
  }

  retireAfter(delayMs: number, onRetired: () => void): void {
    this.#retiring = setTimeout(() => {
      void this.#end()
      onRetired()
    }, delayMs).unref()
  }

  /** Waits for the exit, so that its memory is free before the next process starts. */
  async #end(): Promise<void> {
    const worker = this.#worker
    this.#worker = null
    if (worker?.exitCode !== null || worker.signalCode !== null) return
    const ended = once(worker, 'exit')
    worker.kill('SIGKILL')
    await ended
  }
}

function startProcess(): ChildProcess {
  const child = fork(fileURLToPath(new URL('./media-process.ts', import.meta.url)), {
    env: {},
    execArgv: [],
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  return child.on('error', () => {}) // The exit event follows and is handled.
}

/** Sets whether a child keeps the parent process alive. */
function setKeepsParentAlive(child: ChildProcess, held: boolean): void {
  const how = held ? 'ref' : 'unref'
  child[how]()
  child.channel?.[how]()
}

async function answerRead(worker: ChildProcess, read: Read, { id, start, end }: Extract<FromThread, { kind: 'read' }>) {
  try {
    send(worker, { kind: 'data', id, bytes: await read(start, end) })
  } catch {
    send(worker, { kind: 'fault', id })
  }
}

/** A child that has exited is reported by its `exit` event. */
function send(worker: ChildProcess, message: ToThread): void {
  if (worker.connected) worker.send(message, () => {})
}
