import { buffer } from 'node:stream/consumers'
import { setImmediate } from 'node:timers/promises'
import { GatewayError } from '../base/errors.ts'
import type { JsonMeter } from '../base/json.ts'
import type { FileOwner, Files } from '../files/files.ts'
import { bytesOf } from '../io/bytes.ts'
import type { Sealer } from '../io/sealer.ts'
import type { Blobs } from '../io/storage/blobs.ts'

/** Where a JSON value is: in its row, or in a file if it is large. Both null = it was removed. */
export type Payload = { bytes: Uint8Array<ArrayBuffer> | null; fileId: string | null }

/** How long what is stored is kept; `isPaidFor`: no quota refuses it. */
export type Keeping = { expiresAtMs: number; isPaidFor?: boolean }

/** Larger values go to storage. */
const maxRowBytes = 256 * 1024
/** Files that are read at a time. */
const maxReads = 4
/** How much is decrypted and parsed in one turn of the event loop; each value costs as much as some bytes more. */
const bytesPerTurn = 256 * 1024
const rowCost = 1_024
/** A row gets a new file at most once or twice: when its response ends, and when it is encrypted with another key. */
const maxTries = 3

const noKeys: ReadonlyMap<string, string> = new Map()

type Deps = { files: Files; blobs: Blobs; sealer: Sealer }

/** JSON values of rows, encrypted where the operator has configured a key (docs/decisions/secrets-at-rest.md). */
export class Payloads {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** For columns of their own beside a payload. */
  get sealer(): Sealer {
    return this.#deps.sealer
  }

  /**
   * Prepares JSON text for a row; a file of a large one is written at once. `place` names the column and the row, which
   * encrypted values are bound to. Throws 403 `quota_exceeded`, unless the value `isPaidFor`.
   */
  async write(owner: FileOwner, text: string, { place, expiresAtMs, isPaidFor = false }: Keeping & { place: string }) {
    const bytes = this.#deps.sealer.sealBytes(Buffer.from(text), place)
    if (bytes.length <= maxRowBytes) return { bytes: new Uint8Array(bytes), fileId: null } satisfies Payload
    const { organisationId, environment } = owner
    const { fileId } = await this.#deps.files.store(bytesOf(bytes), {
      organisationId,
      environment,
      expiresAtMs,
      purpose: 'response',
      isPaidFor,
      filename: 'response',
      contentType: 'application/octet-stream',
    })
    return { bytes: null, fileId } satisfies Payload
  }

  /**
   * Reads the values of several rows; `meter` counts each before it is parsed, and may throw. Throws 404 if one is gone: see
   * `readCurrent`.
   */
  async read<T>(rows: readonly { payload: Payload; place: string }[], meter: JsonMeter | null = null): Promise<T[]> {
    const ids = rows.flatMap(({ payload: { fileId } }) => fileId ?? [])
    const keys = ids.length > 0 ? await this.#deps.files.findStorageKeys(ids) : noKeys
    const values: T[] = []
    let readBytes = 0
    for (let from = 0; from < rows.length; from += maxReads) {
      const read = rows.slice(from, from + maxReads).map(async ({ payload, place }) => {
        const bytes = await this.#readBytes(payload, keys)
        if (!bytes) throw new GatewayError('not_found', 'It was deleted while it was read.')
        const text = this.#deps.sealer.openBytes(bytes, place)
        meter?.add(text)
        readBytes += text.length + rowCost
        return JSON.parse(text.toString()) as T
      })
      values.push(...(await Promise.all(read)))
      // Values in rows are read without waiting for anything: other requests run in between.
      if (readBytes > bytesPerTurn) {
        await setImmediate()
        readBytes = 0
      }
    }
    return values
  }

  /**
   * Encrypts a value with the current key, as `write` does; null if it is already, or was removed. The caller removes
   * the file of the old value once its row has the new one.
   */
  async reseal(
    owner: FileOwner,
    payload: Payload,
    at: { place: string; expiresAtMs: number },
  ): Promise<Payload | null> {
    const keys = payload.fileId === null ? noKeys : await this.#deps.files.findStorageKeys([payload.fileId])
    const bytes = await this.#readBytes(payload, keys)
    if (!bytes || this.#deps.sealer.isCurrentBytes(bytes)) return null
    return this.write(owner, this.#deps.sealer.openBytes(bytes, at.place).toString(), at)
  }

  /** Removes the files of values whose rows are gone. */
  async remove(fileIds: readonly (string | null)[]): Promise<void> {
    const ids = fileIds.filter(id => id !== null)
    if (ids.length === 0) return
    const keys = await this.#deps.files.findStorageKeys(ids)
    await this.#deps.files.remove([...keys].map(([fileId, storageKey]) => ({ fileId, storageKey })))
  }

  async #readBytes({ bytes, fileId }: Payload, keys: ReadonlyMap<string, string>): Promise<Buffer | null> {
    if (bytes) return Buffer.from(bytes)
    const storageKey = keys.get(fileId ?? '')
    const blob = storageKey === undefined ? null : await this.#deps.blobs.read(storageKey)
    return blob && buffer(blob.stream)
  }
}

/**
 * Reads rows with their values. One whose file was removed in between is read again: it has another file by now, or is
 * gone. Throws 404 when it is gone and `read` needs it.
 */
export async function readCurrent<T>(read: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await read()
    } catch (error) {
      if (tries === maxTries || !(error instanceof GatewayError && error.code === 'not_found')) throw error
    }
  }
}

/** Runs a transaction; when it fails, drops what was prepared for it. */
export async function dropOnFailure<T>(prepared: { drop(): Promise<void> }, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    await prepared.drop().catch(() => {}) // The files expire.
    throw error
  }
}
