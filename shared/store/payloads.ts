import { buffer } from 'node:stream/consumers'
import { bytesOf } from '../io/bytes.ts'
import type { Blobs } from '../io/storage/blobs.ts'
import type { Sealer } from '../keys/sealer.ts'
import type { FileOwner, Files } from './files.ts'

/** Where a JSON value is: in its row, or in a file if it is large. Both null = it was removed. */
export type Payload = { bytes: Uint8Array<ArrayBuffer> | null; fileId: string | null }

/** Larger values go to storage. */
const maxRowBytes = 256 * 1024
/** Files that are read at a time. */
const maxReads = 4

/** JSON values of rows, encrypted where the operator has configured a key (docs/decisions/secrets-at-rest.md). */
export class Payloads {
  readonly #files: Files
  readonly #blobs: Blobs
  readonly #sealer: Sealer

  constructor({ files, blobs, sealer }: { files: Files; blobs: Blobs; sealer: Sealer }) {
    this.#files = files
    this.#blobs = blobs
    this.#sealer = sealer
  }

  /**
   * Prepares JSON text for a row; a file of a large one is written at once. `place` names the column and the row, which
   * encrypted values are bound to. Throws 403 `quota_exceeded`.
   */
  async write(owner: FileOwner, text: string, { place, expiresAtMs }: { place: string; expiresAtMs: number }) {
    const bytes = this.#sealer.sealBytes(Buffer.from(text), place)
    if (bytes.length <= maxRowBytes) return { bytes: new Uint8Array(bytes), fileId: null } satisfies Payload
    const { organisationId, environment } = owner
    const { fileId } = await this.#files.store(bytesOf(bytes), {
      ...{ organisationId, environment, expiresAtMs },
      ...{ purpose: 'response', filename: 'response', contentType: 'application/octet-stream' },
    })
    return { bytes: null, fileId } satisfies Payload
  }

  /** Reads the values of several rows. Throws an Error if the file of one is missing. */
  async read<T>(rows: readonly { payload: Payload; place: string }[]): Promise<T[]> {
    const ids = rows.flatMap(({ payload: { fileId } }) => fileId ?? [])
    const keys = ids.length > 0 ? await this.#files.storageKeys(ids) : new Map<string, string>()
    const values: T[] = []
    for (let from = 0; from < rows.length; from += maxReads) {
      const read = rows.slice(from, from + maxReads).map(async ({ payload, place }) => {
        const bytes = payload.bytes ? Buffer.from(payload.bytes) : await this.#readFile(keys.get(payload.fileId ?? ''))
        return JSON.parse(this.#sealer.openBytes(bytes, place).toString()) as T
      })
      values.push(...(await Promise.all(read)))
    }
    return values
  }

  /** Removes the files of values whose rows are gone. */
  async remove(fileIds: readonly (string | null)[]): Promise<void> {
    const ids = fileIds.filter(id => id !== null)
    if (ids.length === 0) return
    const keys = await this.#files.storageKeys(ids)
    await this.#files.remove([...keys].map(([fileId, storageKey]) => ({ fileId, storageKey })))
  }

  async #readFile(storageKey: string | undefined): Promise<Buffer> {
    const blob = storageKey === undefined ? null : await this.#blobs.read(storageKey)
    if (!blob) throw new Error('The file of a stored response is missing.')
    return buffer(blob.stream)
  }
}
