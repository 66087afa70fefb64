import { type Batch, Superseded } from '../jobs/batches.ts'
import type { Services } from '../services.ts'
import { encoded, unsealed } from './seal.ts'
import type { Unwritten } from './writer.ts'

/** How much output the database holds before it is moved, in characters. */
const partCharacters = 64 * 1024 * 1024

/**
 * Moves the output of a batch from the journal into parts in storage while it grows, so that a long one does not pile up in
 * the database.
 */
export class OutputParts {
  readonly #services: Services
  readonly #batch: Batch
  #characters = 0
  #moving: Promise<void> | null = null

  constructor(services: Services, batch: Batch) {
    this.#services = services
    this.#batch = batch
  }

  /** Learns what an earlier owner of the batch left in the journal. */
  async open(): Promise<void> {
    this.#characters += await this.#services.batchJournal.outputCharacters(this.#batch)
  }

  /** Results were written to the journal. */
  grew(results: readonly Unwritten[]): void {
    for (const { entry, characters } of results) if (!entry.failed) this.#characters += characters
    if (this.#characters < partCharacters || this.#moving) return
    this.#characters = 0
    this.#moving = this.#move()
      .catch(error => {
        // The journal keeps what could not be moved; whoever took the batch over moves it.
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
        yield encoded(page)
      }
    }
    const part = await files.store(texts(), unsealed(this.#services, batch, 'part'))
    await batchJournal.moved(batch, lines, part).catch(async error => {
      // After any other error the journal may refer to it all the same; if not, it expires.
      if (error instanceof Superseded) await files.remove([part]).catch(() => {})
      throw error
    })
  }
}
