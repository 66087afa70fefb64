import { dayMs } from '../base/time.ts'
import type { FileServices } from '../files/file-services.ts'
import type { Platform } from '../platform.ts'
import type { BatchServices } from './batch-services.ts'
import { type Batch, Superseded } from './batches.ts'
import type { PendingResult } from './result-writer.ts'

/** The output and error file, which are not public before the batch has ended. */
export type FinalFiles = { outputFileId: string | null; errorFileId: string | null }

const contentType = 'application/jsonl'
/** Expiry of files that were never published. */
const unpublishedLifetimeMs = dayMs

/** Writes the journal of a batch into its output and its error file; a file without lines is not created. */
export async function finalizeFiles(services: BatchServices, batch: Batch): Promise<FinalFiles> {
  const outputFileId = batch.completed > 0 ? await store(services, batch, 'output', outputOf(services, batch)) : null
  const errorFileId = batch.failed > 0 ? await store(services, batch, 'error', textsOf(services, batch, true)) : null
  return { outputFileId, errorFileId }
}

function store(services: FileServices, batch: Batch, name: string, texts: AsyncIterable<Uint8Array>): Promise<string> {
  return services.files.store(texts, unpublishedFile(services, batch, name)).then(({ fileId }) => fileId)
}

/** The metadata of a batch's file that is not public yet. */
function unpublishedFile({ clock }: Platform, { id, organisationId, environment }: Batch, name: string) {
  return {
    organisationId,
    environment,
    purpose: 'batch_part' as const,
    filename: `${id}_${name}.jsonl`,
    contentType,
    expiresAtMs: clock.now() + unpublishedLifetimeMs,
  }
}

async function* outputOf(services: BatchServices, batch: Batch): AsyncGenerator<Uint8Array> {
  for (const { storageKey } of await services.batchJournal.listParts(batch)) {
    const part = await services.blobs.read(storageKey)
    if (!part) throw new Error(`part ${storageKey} of batch ${batch.id} is not in storage`)
    yield* part.stream
  }
  yield* textsOf(services, batch, false)
}

async function* textsOf({ batchJournal }: BatchServices, batch: Batch, failed: boolean): AsyncGenerator<Uint8Array> {
  for await (const page of batchJournal.pages(batch, failed)) yield encodePage(page)
}

/** Encodes a page of the journal as JSONL. */
function encodePage(page: readonly { text: string }[]): Uint8Array {
  return Buffer.from(page.map(({ text }) => `${text}\n`).join(''))
}

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
    this.#characters += await this.#services.batchJournal.measureOutput(this.#batch)
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
