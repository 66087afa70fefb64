import { parsedBytes, scanJson } from '../base/json-scan.ts'
import type { Line } from '../io/lines.ts'
import type { Resume } from './batch-journal.ts'
import { BatchKey } from './batch-key.ts'
import type { BatchServices } from './batch-services.ts'
import type { Batch, BatchStatus } from './batches.ts'
import { Changes } from './changes.ts'
import { readLines } from './input.ts'
import { LineCalls } from './line.ts'
import { LineAttempts, type NumberedRequest } from './line-attempts.ts'
import { LineLimits } from './line-limits.ts'
import { LineStarts } from './line-starts.ts'
import { OutputParts } from './parts.ts'
import { type BatchEndpoint, batchEndpoints, isBlank, readRequest } from './request.ts'
import { RunControl } from './run-control.ts'
import { type PendingResult, ResultWriter } from './writer.ts'

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

/** Reads the lines of a batch in order, runs as many at once as the limits allow, and has their results written. */
class LineRunner {
  readonly #services: BatchServices
  readonly #batch: Batch
  readonly #key: BatchKey
  readonly #control: RunControl
  readonly #attempts: LineAttempts
  readonly #starts: LineStarts
  readonly #limits: LineLimits
  readonly #writer: ResultWriter
  readonly #parts: OutputParts
  /** Lines under way without a written result: number to first byte, in ascending order. */
  readonly #open = new Map<number, number>()
  #next: Resume
  /** Signals ended lines: all answers of one event-loop turn release their permits before more lines start. */
  readonly #changes = new Changes()

  constructor(services: BatchServices, batch: Batch) {
    const kind = batchEndpoints[batch.endpoint as BatchEndpoint]
    const calls = new LineCalls(services.admission, batch.id)
    this.#services = services
    this.#batch = batch
    this.#key = new BatchKey(services, batch.keyId, kind)
    this.#next = { line: batch.resumeLine, byte: Number(batch.resumeByte) }
    // More than the limiter's permits, so that lines with a reservation already wait for a permit.
    this.#limits = new LineLimits(services.config.bulkConcurrency * 2)
    this.#starts = new LineStarts(services, batch)
    const control = new RunControl(services, batch, { calls, changes: this.#changes })
    this.#control = control
    this.#attempts = new LineAttempts(services, batch, { kind, key: this.#key, calls, starts: this.#starts, control })
    this.#writer = new ResultWriter(services, batch, {
      resume: () => this.#resume(),
      onWritten: (results, status) => this.#handleWritten(results, status),
      release: reservations => calls.release(reservations),
      onFailed: error => control.fail(error),
    })
    this.#parts = new OutputParts(services, batch)
  }

  /** Starts no more lines, and aborts calls under way after a grace period. */
  stop(): void {
    this.#control.stop()
  }

  async run(): Promise<boolean> {
    const control = this.#control
    // The key is resolved before the first lines, which would otherwise all resolve it at once.
    const [done] = await Promise.all([
      this.#services.batchJournal.linesWithResult(this.#batch, this.#next.line),
      this.#starts.open(),
      this.#parts.open(),
      this.#key.resolve(),
    ])
    control.startPolling()
    try {
      // Lines under way may still finish after a read error.
      const readError = await this.#startLines(done).then(
        () => null,
        (error: Error) => error,
      )
      if (readError) control.stop()
      while (this.#limits.running > 0 && control.failure === null) await this.#changes.next()
      await this.#writer.drain()
      await this.#parts.idle()
      const failure = control.failure ?? readError
      if (this.#limits.running === 0) await this.#starts.close()
      if (failure !== null) throw failure
      return !control.isStopped
    } finally {
      control.close()
      this.#writer.close()
    }
  }

  async #startLines(done: ReadonlySet<number>): Promise<void> {
    const control = this.#control
    for await (const group of readLines(this.#services.blobs, this.#batch, this.#next)) {
      for (const line of group) {
        if (!done.has(line.number) && !isBlank(line.bytes!)) {
          while (!this.#limits.hasRoom(this.#writer.backlog) && !control.isOver) await this.#changes.next()
          if (control.isOver) return
          if (!this.#starts.isMarked(line.number)) await this.#starts.mark(line.number)
          this.#start(line)
        }
        this.#next = { line: line.number + 1, byte: line.end }
      }
    }
  }

  #start({ number, bytes }: Line): void {
    this.#open.set(number, this.#next.byte)
    const memory = parsedBytes(bytes!.length, scanJson(bytes!, false, 'The line'))
    this.#limits.start(memory)
    // Parsed here, so that the bytes of running lines are not kept in memory.
    void this.#runAndWrite({ number, bytes: bytes!.length, request: readRequest(bytes!) }, memory)
  }

  /** Runs a line and passes its result to the writer. Never rejects. */
  async #runAndWrite(line: NumberedRequest, memory: number): Promise<void> {
    try {
      const result = await this.#attempts.run(line)
      if (result) {
        this.#limits.recordAnswer(result.text.length)
        this.#writer.add(result)
      }
    } catch (error) {
      this.#control.fail(error)
    } finally {
      this.#limits.end(memory)
      this.#changes.notify()
    }
  }

  #resume(): Resume {
    const [first] = this.#open
    return first ? { line: first[0], byte: first[1] } : this.#next
  }

  #handleWritten(results: readonly PendingResult[], status: BatchStatus): void {
    for (const { entry } of results) this.#open.delete(entry.line)
    this.#parts.add(results)
    this.#control.applyStatus(status)
    this.#changes.notify()
  }
}
