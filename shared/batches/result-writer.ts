import { setTimeout as sleep } from 'node:timers/promises'
import { isDataFault } from '../wallet/ledger.ts'
import { type JournalEntry, journalEntry, type LineResult, type Resume } from './batch-journal.ts'
import type { BatchServices } from './batch-services.ts'
import { type Batch, type BatchStatus, Superseded } from './batches.ts'
import { type FinishedLine, type LineReservation, unansweredText } from './line-output.ts'

const writeDelayMs = 200
const maxResultsPerWrite = 1_000
const maxCharactersPerWrite = 8 * 1024 * 1024
const retryDelayMs = 500
const maxInstallTries = 20

/** A result waiting to be written to the journal. */
export type PendingResult = {
  entry: JournalEntry
  customId: string
  /** The length of its text. */
  characters: number
  /** The month that it is charged to; null when it costs nothing. */
  chargedMonth: string | null
  reservation: LineReservation | null
}

type Listener = {
  /** The current resume point of the input. */
  resume(): Resume
  onWritten(results: readonly PendingResult[], status: BatchStatus): void
  /** Releases reservations that are no longer needed. */
  release(reservations: readonly LineReservation[]): Promise<void>
  onFailed(error: unknown): void
}

/**
 * Writes results to the journal in groups, at most 200 ms after the first. A line's reservation is released once its charge
 * counts. While Postgres is unavailable, results wait and the write is retried.
 */
export class ResultWriter {
  readonly #services: BatchServices
  readonly #batch: Batch
  readonly #listener: Listener
  readonly #waiting: PendingResult[] = []
  #waitingCharacters = 0
  #timer: NodeJS.Timeout | null = null
  #writing: Promise<void> | null = null
  readonly #releasing = new Set<Promise<void>>()
  #over = false

  constructor(services: BatchServices, batch: Batch, listener: Listener) {
    this.#services = services
    this.#batch = batch
    this.#listener = listener
  }

  /** The number of results that are not written yet, and the length of their texts. */
  get backlog(): { results: number; characters: number } {
    return { results: this.#waiting.length, characters: this.#waitingCharacters }
  }

  add(result: FinishedLine): void {
    if (this.#over) {
      void this.#releaseReservations([result])
      return
    }
    const { customId, reservation } = result
    this.#waiting.push({ customId, reservation, ...toPending(result) })
    this.#waitingCharacters += result.text.length
    this.#schedule()
  }

  /** Resolves when everything added so far is written and its reservations are released. Never rejects. */
  async drain(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#over) await this.#start()
    await Promise.all(this.#releasing)
  }

  /** Stops writing, and releases the reservations of waiting results. */
  close(): void {
    this.#over = true
    if (this.#timer) clearTimeout(this.#timer)
    void this.#releaseReservations(this.#waiting.splice(0))
  }

  /** Few large writes are much cheaper than many small ones: writes are delayed, unless a full group waits. */
  #schedule(): void {
    if (this.#over || this.#writing || this.#waiting.length === 0) return
    const isFull = this.#waiting.length >= maxResultsPerWrite || this.#waitingCharacters >= maxCharactersPerWrite
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
        this.#dequeue(group)
        this.#listener.onWritten(group, status)
        this.#track(this.#installAndRelease(group))
        return
      } catch (error) {
        const trouble = isDataFault(error) ? await this.#replaceRefused(group).catch(refused => refused) : error
        if (trouble instanceof Superseded) {
          this.close()
          return this.#listener.onFailed(trouble)
        }
        if (trouble)
          this.#services.log.warn(
            { err: trouble, batch: this.#batch.id },
            'writing results of a batch failed; retrying',
          )
        await sleep(retryDelayMs)
      }
    }
  }

  #dequeue(group: readonly PendingResult[]): void {
    this.#waiting.splice(0, group.length)
    for (const { characters } of group) this.#waitingCharacters -= characters
  }

  /** The next group to write: at most 8 MiB, or a single larger result. */
  #nextGroup(): PendingResult[] {
    let total = 0
    const end = this.#waiting.findIndex(({ characters }, i) => {
      total += characters
      return i === maxResultsPerWrite || (i > 0 && total > maxCharactersPerWrite)
    })
    return this.#waiting.slice(0, end < 0 ? this.#waiting.length : end)
  }

  /** Writes results one by one; a result that Postgres refuses becomes an error, so that it does not block the others. */
  async #replaceRefused(group: readonly PendingResult[]): Promise<void> {
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
        Object.assign(result, toPending({ line: entry.line, failed: true, text, event: null }))
      }
    }
  }

  #track(work: Promise<void>): void {
    this.#releasing.add(work)
    void work.finally(() => this.#releasing.delete(work))
  }

  /** Releases a group's reservations, only after its charges count in Redis, or the money could be spent twice. */
  async #installAndRelease(group: readonly PendingResult[]): Promise<void> {
    const { wallets, log } = this.#services
    const { id, organisationId, keyId } = this.#batch
    const months = new Set(group.flatMap(({ chargedMonth }) => chargedMonth ?? []))
    for (const month of months) {
      for (let tries = 1; tries <= maxInstallTries; tries++) {
        try {
          await wallets.install(organisationId, keyId, month)
          break
        } catch (error) {
          log.warn({ err: error, batch: id }, 'balance refresh failed; retrying')
          await sleep(retryDelayMs)
        }
      }
    }
    await this.#releaseReservations(group)
  }

  #releaseReservations(group: readonly Pick<PendingResult, 'reservation'>[]): Promise<void> {
    return this.#listener.release(group.flatMap(({ reservation }) => reservation ?? []))
  }
}

/** Serialises a result for the writer's queue. */
function toPending(result: LineResult): Pick<PendingResult, 'entry' | 'characters' | 'chargedMonth'> {
  const { text, event } = result
  const chargedMonth = event !== null && event.cost > 0 ? event.month : null
  return { entry: journalEntry(result), characters: text.length, chargedMonth }
}
