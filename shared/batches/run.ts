import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { GatewayError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { parsedBytes, scanJson } from '../base/json.ts'
import { elapsedMs, type MonotonicMs } from '../base/time.ts'
import { readTimeouts } from '../engine/caller-timeouts.ts'
import { isBusy } from '../engine/failures.ts'
import type { Line } from '../io/lines.ts'
import type { DirectKind } from '../kinds/index.ts'
import { maxOpenStarts, poisonError } from '../queues/crash-suspect-limiter.ts'
import { requestFormatOf } from '../routing/request-formats.ts'
import type { Resume } from './batch-journal.ts'
import { BatchKey, type KeyVerdict } from './batch-key.ts'
import type { BatchServices } from './batch-services.ts'
import { type Batch, type BatchStatus, Superseded } from './batches.ts'
import { readLines } from './input.ts'
import { answeredLine, endErrors, type FinishedLine, refusalOf, unansweredLine } from './line-output.ts'
import { LineCalls, type LineOutcome, runLine } from './line-run.ts'
import { OutputParts } from './output-files.ts'
import { type BatchEndpoint, type BatchRequestLine, batchEndpoints, isBlank, readRequest } from './request.ts'
import { type PendingResult, ResultWriter } from './result-writer.ts'
import { retryPauseMs } from './retry.ts'

const statusPollMs = 1_000
/** Grace period for calls under way once the batch is to end, or this process. */
const graceMs = 12_000
/** A batch yields its worker after this time slice if other batches wait, once its calls under way have ended. */
const sliceMs = 30_000
const yieldGraceMs = 60_000

/** Memory limits of a batch: the parsed lines being run with the answers they expect, and the results waiting to be written. */
const maxRunningBytes = 96 * 1024 * 1024
const maxUnwrittenCharacters = 32 * 1024 * 1024
const maxUnwritten = 4_000
/** Decay of the expected answer length with each shorter answer. */
const answerDecay = 0.99

/** Lines are marked as started in groups of this size, ahead of the first of them: one write for all. */
const markAhead = 256
/** Low-water mark: with fewer marked lines left the next group is marked, so that lines do not wait for the write. */
const minMarkedAhead = 192

/**
 * Runs the lines of a batch that have no result yet, until each has one; returns false if `stopping` or a yield interrupted
 * it, so that another worker continues. The lines of a batch that is cancelled or expires end without being run. Rejects
 * with Superseded, InputLost and what the storage throws.
 */
export async function runLines(services: BatchServices, batch: Batch, stopping: AbortSignal): Promise<boolean> {
  const runner = new LineRunner(services, batch)
  const stop = () => runner.stop()
  stopping.addEventListener('abort', stop, { once: true })
  if (stopping.aborted) stop()
  try {
    return await runner.run()
  } finally {
    stopping.removeEventListener('abort', stop)
  }
}

/** A line to run; `bytes` is its length. */
type NumberedRequest = { number: number; bytes: number; request: BatchRequestLine }

/**
 * Reads the lines of a batch in order, runs as many at once as the limits allow, each until it has its result, and has the
 * results written. It goes on until the batch is cancelled or expires (its lines then end without being run), until it
 * stops because of the process or another batch that waits, or until it fails.
 */
class LineRunner {
  readonly #services: BatchServices
  readonly #batch: Batch
  readonly #kind: DirectKind
  readonly #key: BatchKey
  readonly #calls: LineCalls
  readonly #starts: LineStarts
  readonly #writer: ResultWriter
  readonly #parts: OutputParts
  /** Lines under way without a written result: number to first byte, in ascending order. */
  readonly #open = new Map<number, number>()
  #next: Resume
  readonly #maxRunning: number
  #running = 0
  /** The memory of the parsed lines that are run. */
  #runningBytes = 0
  /** Decaying maximum of recent answer lengths: the expected length for every running line. */
  #answerCharacters = 0
  /** Signals ended lines: all answers of one event-loop turn release their permits before more lines start. */
  readonly #progress = new CoalescedSignal()
  readonly #startedMs: MonotonicMs
  /** Aborted when every wait of the run is to end, such as a backoff. */
  readonly #wakeUp = new AbortController()
  #grace: NodeJS.Timeout | null = null
  /** Why lines end without being run; null while they are run. */
  #ending: keyof typeof endErrors | null = null
  #expiry: Promise<unknown> | null = null
  #isStopped = false
  #failure: unknown = null

  constructor(services: BatchServices, batch: Batch) {
    this.#services = services
    this.#batch = batch
    this.#kind = batchEndpoints[batch.endpoint as BatchEndpoint]
    this.#key = new BatchKey(services, batch.keyId, this.#kind)
    this.#calls = new LineCalls(services.admission, batch.id)
    this.#starts = new LineStarts(services, batch)
    this.#writer = new ResultWriter(services, batch, {
      resume: () => this.#resume(),
      onWritten: (results, status) => this.#handleWritten(results, status),
      release: reservations => this.#calls.release(reservations),
      onFailed: error => this.#fail(error),
    })
    this.#parts = new OutputParts(services, batch)
    this.#next = { line: batch.resumeLine, byte: Number(batch.resumeByte) }
    // More than the limiter's permits, so that lines with a reservation already wait for a permit.
    this.#maxRunning = services.config.bulkConcurrency * 2
    this.#startedMs = services.monotonic.now()
    setMaxListeners(0, this.#wakeUp.signal)
    this.#applyStatus(batch.status)
  }

  /** Starts no more lines, and aborts calls under way after `withinMs`. */
  stop(withinMs?: number): void {
    this.#isStopped = true
    this.#startGracePeriod(withinMs)
  }

  async run(): Promise<boolean> {
    // The key is resolved before the first lines, which would otherwise all resolve it at once.
    const [done] = await Promise.all([
      this.#services.batchJournal.listFinishedLines(this.#batch, this.#next.line),
      this.#starts.open(),
      this.#parts.open(),
      this.#key.resolve(),
    ])
    const polling = setInterval(() => void this.#pollStatus(), statusPollMs)
    try {
      // Lines under way may still finish after a read error.
      const readError = await this.#startLines(done).then(
        () => null,
        (error: Error) => error,
      )
      if (readError) this.stop()
      while (this.#running > 0 && this.#failure === null) await this.#progress.wait()
      await this.#writer.drain()
      await this.#parts.idle()
      const failure = this.#failure ?? readError
      if (this.#running === 0) await this.#starts.close()
      if (failure !== null) throw failure
      return !this.#isStopped
    } finally {
      clearInterval(polling)
      if (this.#grace) clearTimeout(this.#grace)
      this.#abort()
      this.#writer.close()
    }
  }

  async #startLines(done: ReadonlySet<number>): Promise<void> {
    for await (const group of readLines(this.#services.blobs, this.#batch, this.#next)) {
      for (const line of group) {
        if (!done.has(line.number) && !isBlank(line.bytes!)) {
          while (!this.#hasRoom && !this.#isOver) await this.#progress.wait()
          if (this.#isOver) return
          if (!this.#starts.isMarked(line.number)) await this.#starts.mark(line.number)
          this.#start(line)
        }
        this.#next = { line: line.number + 1, byte: line.end }
      }
    }
  }

  /** Whether one more line may start, by count and by memory. */
  get #hasRoom(): boolean {
    const { results, characters } = this.#writer.backlog
    if (results >= maxUnwritten || characters >= maxUnwrittenCharacters) return false
    if (this.#running === 0) return true
    const expectedBytes = this.#runningBytes + this.#running * this.#answerCharacters
    return this.#running < this.#maxRunning && expectedBytes < maxRunningBytes
  }

  #start({ number, bytes }: Line): void {
    this.#open.set(number, this.#next.byte)
    const memory = parsedBytes(bytes!.length, scanJson(bytes!, false, 'The line'))
    this.#running++
    this.#runningBytes += memory
    // Parsed here, so that the bytes of running lines are not kept in memory.
    void this.#runAndWrite({ number, bytes: bytes!.length, request: readRequest(bytes!) }, memory)
  }

  /** Runs a line and passes its result to the writer. Never rejects. */
  async #runAndWrite(line: NumberedRequest, memory: number): Promise<void> {
    try {
      const result = await this.#runToResult(line)
      if (result) {
        this.#answerCharacters = Math.max(result.text.length, this.#answerCharacters * answerDecay)
        this.#writer.add(result)
      }
    } catch (error) {
      this.#fail(error)
    } finally {
      this.#running--
      this.#runningBytes -= memory
      this.#progress.notify()
    }
  }

  /**
   * Runs a line, with its retries, until it has its result; null when the run ends before that. Rejects with what the
   * stores throw.
   */
  async #runToResult(line: NumberedRequest): Promise<FinishedLine | null> {
    const { number, request } = line
    const { customId, body } = request
    const refusal = this.#starts.refusal(number)
    if (refusal) return unansweredLine(number, customId, refusal)
    for (let failures = 0; !this.#isOver; ) {
      if (this.#ending) {
        if (this.#ending === 'expired') await this.#recordExpiry()
        return unansweredLine(number, customId, endErrors[this.#ending])
      }
      const requestId = newId('req')
      const verdict = await this.#key.resolve()
      const outcome = await this.#starts.run(number, async () => {
        const result = await this.#attempt(verdict, line, requestId)
        return { result, hasResult: 'body' in result }
      })
      const { reservation, event } = outcome
      if ('body' in outcome) return answeredLine(number, customId, requestId, { ...outcome, status: 200 })
      // The call of a cancelled batch was aborted: its usage is charged against its reservation.
      if ('cut' in outcome && this.#ending === 'cancelled' && event && event.cost > 0) {
        const why = { ...endErrors.cancelled, request_id: requestId }
        return { ...unansweredLine(number, customId, why), event, reservation }
      }
      // An attempt without a charge need not hold money during its backoff.
      if (reservation) void this.#calls.release([reservation])
      if ('cut' in outcome) continue
      const { error } = outcome
      if (error.status >= 500 && !isBusy(error) && error.status !== 503) failures++
      if (await this.#waitForRetry(error, verdict.hash, body, failures)) continue
      const refused = refusalOf(this.#kind, error, event?.cost ?? 0)
      return answeredLine(number, customId, requestId, { ...refused, event, reservation: null })
    }
    return null
  }

  async #attempt(key: KeyVerdict, { bytes, request }: NumberedRequest, requestId: string): Promise<LineOutcome> {
    if ('error' in key) return { reservation: null, event: null, error: key.error }
    // A suspect may have waited for its permit.
    if (this.#isOver || this.#ending) return { reservation: null, event: null, cut: true }
    const { organisationId: owner, deadlineAt } = this.#batch
    const { body } = request
    const kind = this.#kind
    const input = {
      kind,
      key: key.key,
      body,
      features: requestFormatOf(kind).readFeatures(body, bytes),
      requestId,
      timeouts: readTimeouts(undefined, body, this.#services.config.upstream.totalTimeoutMs),
      bulk: { owner, discountPpm: this.#services.config.discountsPpm.batch, deadlineMs: deadlineAt.getTime() },
    }
    return runLine(this.#services, input, this.#calls)
  }

  /** Waits until a refused line may be retried; false = its refusal is its result. `hash` is that of the key's secret. */
  async #waitForRetry(
    error: GatewayError,
    hash: string | null,
    body: BatchRequestLine['body'],
    failures: number,
  ): Promise<boolean> {
    if (error.status === 401) return this.#key.hasChanged(hash)
    if (error.status === 402) return this.#calls.waitForRelease()
    if (error.code === 'no_provider_available' && !this.#key.isServed(body)) return false
    // The sandbox is deterministic: a retry would fail the same way.
    if (error.status >= 500 && this.#batch.environment === 'test') return false
    const pauseMs = retryPauseMs(error, failures)
    if (pauseMs === null) return false
    await sleep(pauseMs, undefined, { signal: this.#wakeUp.signal }).catch(() => {})
    return true
  }

  #resume(): Resume {
    const [first] = this.#open
    return first ? { line: first[0], byte: first[1] } : this.#next
  }

  #handleWritten(results: readonly PendingResult[], status: BatchStatus): void {
    for (const { entry } of results) this.#open.delete(entry.line)
    this.#parts.add(results)
    this.#applyStatus(status)
    this.#progress.notify()
  }

  /** Whether the run ends before all lines have their results. */
  get #isOver(): boolean {
    return this.#isStopped || this.#failure !== null
  }

  #fail(error: unknown): void {
    this.#failure ??= error
    this.#abort()
    this.#progress.notify()
  }

  /** Ends the waits and the calls of the run. */
  #abort(): void {
    this.#wakeUp.abort()
    this.#calls.abort()
  }

  #applyStatus(status: BatchStatus): void {
    if (this.#ending) return
    if (status === 'cancelling') this.#ending = 'cancelled'
    else if (this.#services.clock.now() >= this.#batch.deadlineAt.getTime()) this.#ending = 'expired'
    if (this.#ending) this.#startGracePeriod()
  }

  #startGracePeriod(withinMs = graceMs): void {
    this.#wakeUp.abort()
    this.#grace ??= setTimeout(() => this.#calls.abort(this.#ending === 'cancelled' ? 'at_once' : 'unbilled'), withinMs)
    this.#progress.notify()
  }

  /** Records the expiry before the first line that ends by it, so that a later owner knows why all lines have ended. */
  #recordExpiry(): Promise<unknown> {
    const expiredAt = new Date(this.#services.clock.now())
    return (this.#expiry ??= this.#services.batches.change(this.#batch, ['in_progress'], { expiredAt }))
  }

  async #pollStatus(): Promise<void> {
    const { batches, batchWakes, monotonic, log } = this.#services
    try {
      this.#applyStatus(await batches.readStatus(this.#batch))
      if (this.#isOver || this.#ending || elapsedMs(this.#startedMs, monotonic.now()) < sliceMs) return
      if (await batchWakes.hasWaiting(monotonic.now())) this.stop(yieldGraceMs)
    } catch (error) {
      if (error instanceof Superseded) this.#fail(error)
      else log.debug({ err: error, batch: this.#batch.id }, 'cannot read the status of a batch')
    }
  }
}

/**
 * A write-ahead mark of the lines that are under way. After a worker's death the next owner treats marked lines without a
 * result as suspects: they run in small groups, and each start is counted. See docs/decisions/poison-work.md.
 */
export class LineStarts {
  readonly #services: BatchServices
  readonly #batch: Batch
  #markedLine = 0
  /** The write under way; a failed one stays, so that lines which depend on it fail as well. */
  #marking: Promise<void> | null = null
  #suspects: ReadonlyMap<number, number> = new Map()

  constructor(services: BatchServices, batch: Batch) {
    this.#services = services
    this.#batch = batch
  }

  /** Reads which lines may have killed an earlier owner. */
  async open(): Promise<void> {
    this.#suspects = await this.#services.batchJournal.readOpenStarts(this.#batch)
  }

  /** Marks a line as about to start. Call it in line order. Throws Superseded. */
  async mark(line: number): Promise<void> {
    while (line > this.#markedLine) await (this.#marking ?? this.#markUpTo(line + markAhead - 1))
    const isLow = this.#markedLine - line < minMarkedAhead && this.#markedLine < this.#batch.total
    if (isLow && !this.#marking) this.#markUpTo(this.#markedLine + markAhead)
  }

  /** Whether a line and enough lines after it are marked already. */
  isMarked(line: number): boolean {
    return this.#markedLine - line >= minMarkedAhead
  }

  /** Clears the mark: no line is under way any more. Throws Superseded. */
  async close(): Promise<void> {
    await this.#marking
    if (this.#markedLine > 0) await this.#services.batchJournal.startUpTo(this.#batch, 0)
  }

  #markUpTo(line: number): Promise<void> {
    const marking = this.#services.batchJournal.startUpTo(this.#batch, line).then(() => {
      this.#markedLine = line
      this.#marking = null
    })
    marking.catch(() => {})
    this.#marking = marking
    return marking
  }

  /** The error-file entry of a line that must not be run again; null when it may run. */
  refusal(line: number): { code: string; message: string } | null {
    if ((this.#suspects.get(line) ?? 0) < maxOpenStarts) return null
    return { ...poisonError, message: `${poisonError.message} Nothing was charged.` }
  }

  /**
   * Makes a call for a line; a suspect waits for a permit, and its start is counted. The start stays counted when `call`
   * returns `hasResult`: the result's row replaces the count.
   */
  async run<T>(line: number, call: () => Promise<{ result: T; hasResult: boolean }>): Promise<T> {
    const openStarts = this.#suspects.get(line) ?? 0
    if (openStarts === 0) return (await call()).result
    const { crashSuspects, batchJournal } = this.#services
    return crashSuspects.run(openStarts, async () => {
      await batchJournal.countStart(this.#batch, line, 1)
      const { result, hasResult } = await call()
      // A failed write means that the batch was lost; the call's reservation must still be returned to the caller.
      if (!hasResult) await batchJournal.countStart(this.#batch, line, -1).catch(() => {})
      return result
    })
  }
}

/**
 * A coalescing signal for one waiter: it fires after the current turn of the event loop, so that all other events of that
 * turn are handled first and many of them wake the waiter once.
 */
class CoalescedSignal {
  #wake: (() => void) | null = null
  #waking: NodeJS.Immediate | null = null

  /** Resolves after the next notification. */
  wait(): Promise<void> {
    return new Promise(resolve => {
      this.#wake = resolve
    })
  }

  /** Wakes the waiter in the next turn. */
  notify(): void {
    this.#waking ??= setImmediate(() => {
      this.#waking = null
      this.#wake?.()
    })
  }
}
