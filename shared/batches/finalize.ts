import type { FileServices } from '../files/file-services.ts'
import type { Platform } from '../platform.ts'
import type { BatchServices } from './batch-services.ts'
import type { Batch } from './batches.ts'

/** The output and error file, which are not public before the batch has ended. */
export type FinalFiles = { outputFileId: string | null; errorFileId: string | null }

const contentType = 'application/jsonl'
/** Expiry of files that were never published. */
const unpublishedLifetimeMs = 24 * 3_600_000

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
export function unpublishedFile({ clock }: Platform, { id, organisationId, environment }: Batch, name: string) {
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
  for (const { storageKey } of await services.batchJournal.parts(batch)) {
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
export function encodePage(page: readonly { text: string }[]): Uint8Array {
  return Buffer.from(page.map(({ text }) => `${text}\n`).join(''))
}
