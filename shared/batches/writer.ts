import { setTimeout as sleep } from 'node:timers/promises'
import { type JournalEntry, journalEntry, type LineResult, type Resume } from '../jobs/batch-journal.ts'
import { type Batch, type BatchStatus, Superseded } from '../jobs/batches.ts'
import type { Services } from '../services.ts'
import { isDataFault } from '../wallet/ledger.ts'
import { type Finished, type Reservation, unansweredText } from './line.ts'

const writeDelayMs = 200
const writeAtOnce = 1_000
const maxCharactersPerWrite = 8 * 1024 * 1024
const retryDelayMs = 500
const installTries = 20

/** A result on its way into the journal. */
export type Unwritten = {
  entry: JournalEntry
  customId: string
  /** The length of its text. */
  characters: number
  /** The month that it is charged to; null when it costs nothing. */
  chargedMonth: string | null
  reservation: Reservation | null
}

type Listener = {
  /** How far the input is done. */
  resume(): Resume
  written(results: readonly Unwritten[], status: BatchStatus): void
  /** These are no longer needed. */
  giveUp(reservations: readonly Reservation[]): Promise<void>
  failed(error: unknown): void
}

/**
 * Results on their way into the journal: written in groups, at most 200 ms after the first. What a line had reserved is
 * given up once its charge counts. While Postgres is away they wait.
 */
export class ResultWriter {
  readonly #services: Services
  readonly #batch: Batch
  readonly #listener: Listener
  readonly #waiting: Unwritten[] = []
  #waitingCharacters = 0
  #timer: NodeJS.Timeout | null = null
  #writing: Promise<void> | null = null
  readonly #releasing = new Set<Promise<void>>()
  #over = false

  constructor(services: Services, batch: Batch, listener: Listener) {
    this.#services = services
    this.#batch = batch
    this.#listener = listener
  }

  /** Results that are not written yet, and the length of their texts. */
  get backlog(): { results: number; characters: number } {
    return { results: this.#waiting.length, characters: this.#waitingCharacters }
  }

  add(result: Finished): void {
    if (this.#over) {
      void this.#giveUp([result])
      return
    }
    const { customId, reservation } = result
    this.#waiting.push({ customId, reservation, ...written(result) })
    this.#waitingCharacters += result.text.length
    this.#schedule()
  }

  /** Resolves when everything added so far is written and its reservations are given up. Never rejects. */
  async drain(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#over) await this.#start()
    await Promise.all(this.#releasing)
  }

  /** Nothing more is written; what waits gives its reservations up. */
  close(): void {
    this.#over = true
    if (this.#timer) clearTimeout(this.#timer)
    void this.#giveUp(this.#waiting.splice(0))
  }

  /** Few large writes cost much less than many small ones: between two there is a pause, unless there is enough for one. */
  #schedule(): void {
    if (this.#over || this.#writing || this.#waiting.length === 0) return
    const isFull = this.#waiting.length >= writeAtOnce || this.#waitingCharacters >= maxCharactersPerWrite
    if (isFull) void this.#start()
    else this.#timer ??= setTimeout(() => void this.#start(), writeDelayMs)
  }

  #start(): Promise<void> {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
    this.#writing ??= this.#write().finally(() => {
      this.#writing = null
      this.#schedule()
    })
    return this.#writing
  }

  async #write(): Promise<void> {
    const group = this.#nextGroup()
    while (!this.#over) {
      try {
        const status = await this.#services.batchJournal.record(
          this.#batch,
          group.map(({ entry }) => entry),
          this.#listener.resume(),
        )
        this.#forget(group)
        this.#listener.written(group, status)
        this.#track(this.#release(group))
        return
      } catch (error) {
        const trouble = isDataFault(error) ? await this.#replaceRefused(group).catch(refused => refused) : error
        if (trouble instanceof Superseded) {
          this.close()
          return this.#listener.failed(trouble)
        }
        if (trouble)
          this.#services.log.warn({ err: trouble, batch: this.#batch.id }, 'results of a batch are written later')
        await sleep(retryDelayMs)
      }
    }
  }

  #forget(group: readonly Unwritten[]): void {
    this.#waiting.splice(0, group.length)
    for (const { characters } of group) this.#waitingCharacters -= characters
  }

  /** What is written next: a few megabytes, or one result that is larger. */
  #nextGroup(): Unwritten[] {
    let total = 0
    const end = this.#waiting.findIndex(({ characters }, i) => {
      total += characters
      return i === writeAtOnce || (i > 0 && total > maxCharactersPerWrite)
    })
    return this.#waiting.slice(0, end < 0 ? this.#waiting.length : end)
  }

  /** Postgres refuses a result by itself: its line ends with an error, so that it does not hold up the others. */
  async #replaceRefused(group: readonly Unwritten[]): Promise<void> {
    const { batchJournal, log } = this.#services
    for (const result of group) {
      const { entry, customId } = result
      try {
        await batchJournal.record(this.#batch, [entry], this.#listener.resume())
      } catch (error) {
        if (!isDataFault(error)) throw error
        log.error({ err: error, batch: this.#batch.id, line: entry.line }, 'a result was refused by Postgres')
        const message = 'The answer could not be stored. Nothing was charged.'
        const text = unansweredText(customId, { code: 'internal_error', message })
        this.#waitingCharacters += text.length - result.characters
        Object.assign(result, written({ line: entry.line, failed: true, text, event: null }))
      }
    }
  }

  #track(work: Promise<void>): void {
    this.#releasing.add(work)
    void work.finally(() => this.#releasing.delete(work))
  }

  /** Lets go of what a group had reserved, not before its charges count in Redis: the money would be free for a moment. */
  async #release(group: readonly Unwritten[]): Promise<void> {
    const { accounts, log } = this.#services
    const { id, organisationId, keyId } = this.#batch
    const months = new Set(group.flatMap(({ chargedMonth }) => chargedMonth ?? []))
    for (const month of months) {
      for (let tries = 1; tries <= installTries; tries++) {
        try {
          await accounts.install(organisationId, keyId, month)
          break
        } catch (error) {
          log.warn({ err: error, batch: id }, 'charges of a batch count later')
          await sleep(retryDelayMs)
        }
      }
    }
    await this.#giveUp(group)
  }

  #giveUp(group: readonly Pick<Unwritten, 'reservation'>[]): Promise<void> {
    return this.#listener.giveUp(group.flatMap(({ reservation }) => reservation ?? []))
  }
}

/** A result as it waits to be written. */
function written(result: LineResult): Pick<Unwritten, 'entry' | 'characters' | 'chargedMonth'> {
  const { text, event } = result
  const chargedMonth = event !== null && event.cost > 0 ? event.month : null
  return { entry: journalEntry(result), characters: text.length, chargedMonth }
}
