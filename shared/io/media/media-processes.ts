import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { GatewayError } from '../../base/errors.ts'
import { FairSlots, type SlotOwner } from '../fair-slots.ts'
import { withDeadline } from '../retry.ts'
import type { MediaLength, RangeFile } from './media-file.ts'
import type { FromThread, ReadBytes, ToThread } from './media-thread.ts'
import type { DocumentSize } from './pdf.ts'
import { maxPieceBytes } from './shared-piece.ts'
import { UnmeasurableFiles } from './unmeasurable-files.ts'

/** An idle process is ended after this time to release its memory. */
const idleMs = 60_000
const waitMs = 30_000
const maxProcesses = 2
const maxWaiting = 512

/** The longest that one file may be measured. */
export const maxMeasuringMs = 10_000
const startMs = 15_000
/** How much longer than its processor time a measurement may take. */
const busyFactor = 4
const mib = 1024 * 1024

const slots = new FairSlots({ slots: maxProcesses, testSlots: maxProcesses - 1 })
/** Conversions leave the other processes to measurements. */
const conversions = new FairSlots({ slots: 1, testSlots: 1 })
const idle: Measurer[] = []
const unmeasurable = new UnmeasurableFiles()

/** Processor time for a media file or a PDF: several times what honest ones take, which have more text and packets the larger they are. */
const cpuLimitMs = {
  media: (bytes: number) => Math.min(maxMeasuringMs, 500 + (2_000 * bytes) / mib),
  document: (bytes: number) => Math.min(maxMeasuringMs, 3_000 + (8_000 * bytes) / mib),
}
/** Processor time for a conversion, by the length of the sound: several times what decoders and the encoder take. */
const conversionCpuMs = (seconds: number) => Math.min(2 * maxMeasuringMs, 1_000 + 15 * seconds)

/**
 * Measures a media file in a child process, so that a malicious file blocks no one else: the process exits beyond a
 * processor time that depends on the file's size, 256 MB of heap or 400 MB in total, and is killed after `timeoutMs`. Queued
 * files are taken fairly by `owner`. Null if the process ended so, now or for the same file lately, and if the file cannot
 * be parsed. Throws 503 if no process becomes available within 30 s, and what `file.read` throws.
 */
export async function measureMedia(file: RangeFile, timeoutMs: number, owner: SlotOwner): Promise<MediaLength | null> {
  const maxCpuMs = cpuLimitMs.media(file.bytes)
  const task: Task = (job, whole) => ({ kind: 'media', job, bytes: file.bytes, whole, maxCpuMs })
  const measured = await withFile(file, owner, task, { timeoutMs, maxCpuMs })
  if (measured) return measured.result as MediaLength | null
  throw tooManyFiles('measured')
}

/**
 * Converts the sound of a media file, `seconds` long, to FLAC of at most `maxBytes`, one file at a time, with limits as for
 * measuring. `unreadable` if its codec is not known or the process ended. Throws 503 as well, and what `file.read`
 * throws.
 */
export async function convertMedia(
  file: RangeFile,
  { seconds, maxBytes }: { seconds: number; maxBytes: number },
  owner: SlotOwner,
): Promise<{ flac: Uint8Array[] } | 'unreadable' | 'too large'> {
  const maxCpuMs = conversionCpuMs(seconds)
  const task: Task = (job, whole) => ({ kind: 'conversion', job, bytes: file.bytes, whole, maxBytes, maxCpuMs })
  const limits = { timeoutMs: busyFactor * maxCpuMs, maxCpuMs }
  const flac: Uint8Array[] = []
  const ran = await conversions.run(owner, { waitMs, maxWaiting }, () =>
    withFile(file, owner, task, limits, piece => flac.push(piece)),
  )
  if (!ran?.result) throw tooManyFiles('converted')
  const { result } = ran.result
  if (result === 'converted') return { flac }
  return result === 'too large' ? result : 'unreadable'
}

function tooManyFiles(done: 'measured' | 'converted'): GatewayError {
  const message = `Too many files are being ${done}. Try again shortly.`
  return new GatewayError('service_unavailable', message, { headers: { 'retry-after': '5' } })
}

/** Runs a task that reads a file in pieces. */
async function withFile(
  file: RangeFile,
  owner: SlotOwner,
  task: Task,
  limits: TimeLimits,
  onPiece: (piece: Uint8Array) => void = () => {},
): Promise<{ result: Result } | undefined> {
  let fault: { error: unknown } | null = null
  const read = (start: number, end: number) =>
    file.read(start, end).catch(error => {
      fault = { error }
      throw error
    })
  const isSmall = file.bytes <= maxPieceBytes
  const ran = await withProcess(file, owner, waitMs, async measurer => {
    const whole = isSmall ? await withDeadline(read(0, file.bytes), limits.timeoutMs).catch(() => null) : null
    return isSmall && !whole ? null : measurer.run(job => task(job, whole), read, limits, onPiece)
  })
  if (fault) throw (fault as { error: unknown }).error
  return ran
}

/**
 * Measures a PDF in a child process, with the same limits. Also null if no process becomes available within
 * `timeoutMs`.
 */
export async function measurePdf(bytes: Uint8Array, timeoutMs: number, owner: SlotOwner): Promise<DocumentSize | null> {
  const file = { bytes: bytes.length, read: async (start: number, end: number) => bytes.subarray(start, end) }
  const measured = await withProcess(file, owner, timeoutMs, measurer => runOnPdf(measurer, bytes, timeoutMs, false))
  return (measured?.result ?? null) as DocumentSize | null
}

/**
 * Counts the pages of a PDF in a child process, with the same limits. Null if they cannot be counted. Throws 503 as
 * `measureMedia` does, and what `file.read` throws.
 */
export async function countPdfPages(file: RangeFile, timeoutMs: number, owner: SlotOwner): Promise<number | null> {
  let fault: { error: unknown } | null = null
  const counted = await withProcess(file, owner, waitMs, async measurer => {
    const bytes = await file.read(0, file.bytes).catch(error => {
      fault = { error }
      return null
    })
    return bytes && runOnPdf(measurer, bytes, timeoutMs, true)
  })
  if (fault) throw (fault as { error: unknown }).error
  if (!counted) throw tooManyFiles('measured')
  return (counted.result as DocumentSize | null)?.pages ?? null
}

function runOnPdf(measurer: Measurer, bytes: Uint8Array, timeoutMs: number, pagesOnly: boolean): Promise<Outcome> {
  const read = () => Promise.reject(new Error('a document is sent whole'))
  const maxCpuMs = cpuLimitMs.document(bytes.length)
  const task = (job: number): ToThread => ({ kind: 'document', job, bytes, pagesOnly, maxCpuMs })
  return measurer.run(task, read, { timeoutMs, maxCpuMs }, () => {})
}

/** Measures a file with a process, unless that is known to fail; undefined if no process becomes available in time. */
async function withProcess(
  file: RangeFile,
  owner: SlotOwner,
  waitMs: number,
  measure: (measurer: Measurer) => Promise<Outcome>,
): Promise<{ result: Result } | undefined> {
  if (await unmeasurable.has(file)) return { result: null }
  return slots.run(owner, { waitMs, maxWaiting }, async () => {
    // The same file may have failed while this one waited.
    if (await unmeasurable.has(file)) return null
    const measurer = idle.pop() ?? new Measurer()
    try {
      const outcome = await measure(measurer)
      if (outcome !== 'unmeasurable') return outcome
      await unmeasurable.add(file).catch(() => {}) // It is measured once more.
      return null
    } finally {
      idle.push(measurer)
      measurer.retireAfter(idleMs, () => idle.splice(idle.indexOf(measurer), 1))
    }
  })
}

type Result = Extract<FromThread, { kind: 'done' }>['result']
type Read = RangeFile['read']
/** A message; `whole` is the content of a small file, which spares its process to ask for it. */
type Task = (job: number, whole: Uint8Array | null) => ToThread
/** A file is not to blame for a time-out while it waits for its storage. */
type Outcome = Result | 'unmeasurable'
type TimeLimits = { timeoutMs: number; maxCpuMs: number }

/** Manages one child process, started on demand; measures one file at once. */
class Measurer {
  #worker: ChildProcess | null = null
  #jobs = 0
  #retiring: NodeJS.Timeout | undefined

  /** Runs a task. `unmeasurable` if the process dies or does not end in time. */
  async run(
    task: (job: number) => ToThread,
    read: Read,
    { timeoutMs, maxCpuMs }: TimeLimits,
    onPiece: (piece: Uint8Array) => void,
  ): Promise<Outcome> {
    clearTimeout(this.#retiring)
    if (!this.#worker?.connected) this.#worker = startProcess()
    const worker = this.#worker
    const job = ++this.#jobs
    let reads = 0
    const { promise, resolve } = Promise.withResolvers<Outcome | 'late'>()
    const onExit = () => resolve('unmeasurable')
    const onTimeout = () => resolve(reads > 0 ? 'late' : 'unmeasurable')
    let timer = setTimeout(() => resolve('late'), startMs)
    const onMessage = (message: FromThread) => {
      if (message.job !== job) return
      if (message.kind === 'done') return resolve(message.result)
      if (message.kind === 'piece') return onPiece(message.bytes)
      if (message.kind === 'begun') {
        clearTimeout(timer)
        // The process counts its own processor time; this is for one that waits for nothing, and for a busy machine.
        timer = setTimeout(onTimeout, Math.min(timeoutMs, busyFactor * maxCpuMs))
        return
      }
      reads++
      void answerRead(worker, read, message).finally(() => reads--)
    }
    worker.on('message', onMessage).on('exit', onExit)
    setKeepsParentAlive(worker, true)
    send(worker, task(job))
    const outcome = await promise
    clearTimeout(timer)
    worker.off('message', onMessage).off('exit', onExit)
    if (outcome === 'late' || outcome === 'unmeasurable') await this.#end()
    setKeepsParentAlive(worker, false)
    return outcome === 'late' ? null : outcome
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
    // Its exit must not hang either (`shared/base/code-cache.js`).
    execArgv: ['--no-concurrent-sparkplug', '--no-maglev-build-code-on-background'],
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

async function answerRead(worker: ChildProcess, read: Read, { start, end }: Extract<FromThread, { kind: 'read' }>) {
  send(worker, { kind: 'data', bytes: await read(start, end).catch(() => null) })
}

/** A child that has exited is reported by its `exit` event. */
function send(worker: ChildProcess, message: ToThread | ReadBytes): void {
  if (worker.connected) worker.send(message, () => {})
}
