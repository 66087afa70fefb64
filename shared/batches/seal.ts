import type { Batch } from '../jobs/batches.ts'
import type { Services } from '../services.ts'

/** The contents of the two files, not shown to anybody before the batch has ended with them. */
export type Sealed = { outputFileId: string | null; errorFileId: string | null }

const contentType = 'application/jsonl'
/** Files that no batch ended with are gone after this. */
const unsealedForMs = 24 * 3_600_000
/** Writes the journal of a batch into its output and its error file; a file without lines is not there. */
export async function sealFiles(services: Services, batch: Batch): Promise<Sealed> {
  const outputFileId = batch.completed > 0 ? await store(services, batch, 'output', outputOf(services, batch)) : null
  const errorFileId = batch.failed > 0 ? await store(services, batch, 'error', textsOf(services, batch, true)) : null
  return { outputFileId, errorFileId }
}

function store(services: Services, batch: Batch, name: string, texts: AsyncIterable<Uint8Array>): Promise<string> {
  return services.files.store(texts, unsealed(services, batch, name)).then(({ fileId }) => fileId)
}

/** A file of a batch that nobody sees yet. */
export function unsealed({ clock }: Services, { id, organisationId, environment }: Batch, name: string) {
  return {
    organisationId,
    environment,
    purpose: 'batch_part' as const,
    filename: `${id}_${name}.jsonl`,
    contentType,
    expiresAtMs: clock.now() + unsealedForMs,
  }
}

async function* outputOf(services: Services, batch: Batch): AsyncGenerator<Uint8Array> {
  for (const { storageKey } of await services.batchJournal.parts(batch)) {
    const part = await services.blobs.read(storageKey)
    if (!part) throw new Error(`part ${storageKey} of batch ${batch.id} is not in storage`)
    yield* part.stream
  }
  yield* textsOf(services, batch, false)
}

async function* textsOf({ batchJournal }: Services, batch: Batch, failed: boolean): AsyncGenerator<Uint8Array> {
  for await (const page of batchJournal.pages(batch, failed)) yield encoded(page)
}

/** A page of the journal as the bytes of a file. */
export function encoded(page: readonly { text: string }[]): Uint8Array {
  return Buffer.from(page.map(({ text }) => `${text}\n`).join(''))
}
