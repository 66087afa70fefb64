import type { Batch } from '../jobs/batches.ts'
import { givenUp, maxOpenStarts } from '../jobs/suspects.ts'
import type { Services } from '../services.ts'

/** So many lines are noted as begun at a time, before the first of them is: one write for all of them. */
const noteAhead = 256
/** With fewer noted lines left the next ones are noted: the write may wait for one of results, and lines must not wait for it. */
const fewNoted = 192

/**
 * Which lines of a running batch are under way, as its rows tell whoever takes it over after a death: those that have no
 * result by then are suspects, and run in small groups, each start counted. See docs/decisions/poison-work.md.
 */
export class LineStarts {
  readonly #services: Services
  readonly #batch: Batch
  #notedLine = 0
  /** The write under way; one that failed stays, for whoever needs its lines. */
  #noting: Promise<void> | null = null
  #suspects: ReadonlyMap<number, number> = new Map()

  constructor(services: Services, batch: Batch) {
    this.#services = services
    this.#batch = batch
  }

  /** Learns which lines an earlier owner died of, perhaps. */
  async open(): Promise<void> {
    this.#suspects = await this.#services.batchJournal.openStarts(this.#batch)
  }

  /** Notes that a line is about to be begun. To be called in the order of the lines. Throws Superseded. */
  async note(line: number): Promise<void> {
    while (line > this.#notedLine) await (this.#noting ?? this.#noteUpTo(line + noteAhead - 1))
    const isLow = this.#notedLine - line < fewNoted && this.#notedLine < this.#batch.total
    if (isLow && !this.#noting) this.#noteUpTo(this.#notedLine + noteAhead)
  }

  /** Whether a line, and enough of those after it, need no more noting. */
  isNoted(line: number): boolean {
    return this.#notedLine - line >= fewNoted
  }

  /** Notes that no line is under way any more. Throws Superseded. */
  async close(): Promise<void> {
    await this.#noting
    if (this.#notedLine > 0) await this.#services.batchJournal.startUpTo(this.#batch, 0)
  }

  #noteUpTo(line: number): Promise<void> {
    const noting = this.#services.batchJournal.startUpTo(this.#batch, line).then(() => {
      this.#notedLine = line
      this.#noting = null
    })
    noting.catch(() => {})
    this.#noting = noting
    return noting
  }

  /** Why a line is not to be run again, as the error file tells it; null when it is. */
  refusal(line: number): { code: string; message: string } | null {
    if ((this.#suspects.get(line) ?? 0) < maxOpenStarts) return null
    return { ...givenUp, message: `${givenUp.message} Nothing was charged.` }
  }

  /**
   * Makes a call for a line; for a suspect when its turn has come, and counted. `call` gives whether the start it was is to
   * stay counted: where there is a result, its row takes the place of the count.
   */
  async run<T>(line: number, call: () => Promise<{ came: T; hasResult: boolean }>): Promise<T> {
    const openStarts = this.#suspects.get(line) ?? 0
    if (openStarts === 0) return (await call()).came
    const { suspects, batchJournal } = this.#services
    return suspects.run(openStarts, async () => {
      await batchJournal.countStart(this.#batch, line, 1)
      const { came, hasResult } = await call()
      // Whoever cannot write that loses the batch, but not what the call has reserved.
      if (!hasResult) await batchJournal.countStart(this.#batch, line, -1).catch(() => {})
      return came
    })
  }
}
