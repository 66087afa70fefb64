import type { BatchServices } from './batch-services.ts'
import { type Batch, Superseded } from './batches.ts'
import { encodePage, unpublishedFile } from './finalize.ts'
import type { PendingResult } from './writer.ts'

/** Length of output in the database from which it is moved to storage, in characters. */
const partCharacters = 64 * 1024 * 1024

/**
 * Moves the output of a running batch from the journal into parts in storage, so that long outputs do not accumulate in the
 * database.
 */
export class OutputParts {
  readonly #services: BatchServices
  readonly #batch: Batch
  #characters = 0
  #moving: Promise<void> | null = null

  constructor(services: BatchServices, batch: Batch) {
    this.#services = services
    this.#batch = batch
  }

  /** Reads how much output an earlier owner of the batch left in the journal. */
  async open(): Promise<void> {
    this.#characters += await this.#services.batchJournal.outputCharacters(this.#batch)
  }

  /** Counts results written to the journal, and starts a move once there is enough for a part. */
  add(results: readonly PendingResult[]): void {
    for (const { entry, characters } of results) if (!entry.failed) this.#characters += characters
    if (this.#characters < partCharacters || this.#moving) return
    this.#characters = 0
    this.#moving = this.#move()
      .catch(error => {
        // The journal keeps what could not be moved; the next owner of the batch moves it.
        if (!(error instanceof Superseded))
          this.#services.log.error({ err: error, batch: this.#batch.id }, 'output of a batch stays in the journal')
      })
      .finally(() => {
        this.#moving = null
      })
  }

  /** Resolves when nothing is being moved. Never rejects. */
  async idle(): Promise<void> {
    await this.#moving
  }

  async #move(): Promise<void> {
    const { files, batchJournal } = this.#services
    const batch = this.#batch
    const lines: number[] = []
    const texts = async function* () {
      for await (const page of batchJournal.pages(batch, false)) {
        for (const { line } of page) lines.push(line)
        yield encodePage(page)
      }
    }
    const part = await files.store(texts(), unpublishedFile(this.#services, batch, 'part'))
    await batchJournal.recordPart(batch, lines, part).catch(async error => {
      // After any other error the journal may refer to the part; if not, it expires.
      if (error instanceof Superseded) await files.remove([part]).catch(() => {})
      throw error
    })
  }
}
