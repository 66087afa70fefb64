import { maxOpenStarts, poisonError } from '../queues/crash-suspect-limiter.ts'
import type { BatchServices } from './batch-services.ts'
import type { Batch } from './batches.ts'

/** Lines are marked as started in groups of this size, ahead of the first of them: one write for all. */
const markAhead = 256
/** Low-water mark: with fewer marked lines left the next group is marked, so that lines do not wait for the write. */
const minMarkedAhead = 192

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
    this.#suspects = await this.#services.batchJournal.openStarts(this.#batch)
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
    const { suspects, batchJournal } = this.#services
    return suspects.run(openStarts, async () => {
      await batchJournal.countStart(this.#batch, line, 1)
      const { result, hasResult } = await call()
      // A failed write means that the batch was lost; the call's reservation must still be returned to the caller.
      if (!hasResult) await batchJournal.countStart(this.#batch, line, -1).catch(() => {})
      return result
    })
  }
}
