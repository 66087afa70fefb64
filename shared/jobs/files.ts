import { newId } from '../base/ids.ts'
import type { Clock } from '../base/time.ts'
import type { File } from '../generated/prisma/client.ts'
import type { Blobs } from '../io/blobs.ts'
import type { Database } from '../io/db.ts'
import { extensionOf } from '../io/media-type.ts'

export type FilePurpose = 'upload' | 'reference' | 'result'

export type NewFile = {
  organisationId: string
  purpose: FilePurpose
  filename: string
  contentType: string
  expiresAtMs: number
  /** A file of this id is replaced, so that work which is done again leaves one file. */
  id?: string
}
export type StoredFile = { fileId: string; storageKey: string; contentType: string; bytes: number }

/** Bytes that a job may refer to stay so long: it may wait in a queue. */
export const keptForJobsMs = 24 * 3_600_000
const mostFilenameCharacters = 200
const pageSize = 500
const mostPages = 200
/** A file this close to its end is no longer held on to, as it may be on its way out. */
const tooLateMs = 60_000

/** The files of organisations: their rows, and the bytes behind them. */
export class Files {
  readonly #db: Database
  readonly #blobs: Blobs
  readonly #clock: Clock

  constructor(db: Database, blobs: Blobs, clock: Clock) {
    this.#db = db
    this.#blobs = blobs
    this.#clock = clock
  }

  /** Stores a body. Its row is there before its bytes are, so that whatever a crash leaves behind expires. */
  async store(body: AsyncIterable<Uint8Array>, file: NewFile): Promise<StoredFile> {
    const { organisationId, purpose, contentType, id = newId(purpose === 'upload' ? 'upl' : 'file') } = file
    const storageKey = `${purpose}s/${organisationId}/${id}.${extensionOf(contentType)}`
    const row = {
      organisationId,
      purpose,
      filename: file.filename.slice(0, mostFilenameCharacters).replaceAll('\0', '').toWellFormed(),
      bytes: 0n,
      contentType,
      storageKey,
      expiresAt: new Date(file.expiresAtMs),
    }
    await this.#db.file.upsert({
      where: { id },
      create: { id, ...row, createdAt: new Date(this.#clock.now()) },
      update: row,
    })
    try {
      const bytes = await this.#blobs.write(storageKey, body, contentType)
      await this.#db.file.update({ where: { id }, data: { bytes } })
      return { fileId: id, storageKey, contentType, bytes }
    } catch (error) {
      await this.remove([{ fileId: id, storageKey }]).catch(() => {}) // It expires.
      throw error
    }
  }

  /** An organisation's file by its storage key, kept from now on as long as jobs need; null when there is none. */
  async hold(organisationId: string, storageKey: string): Promise<File | null> {
    const id = /([^/]+)\.\w+$/.exec(storageKey)?.[1]
    if (!id) return null
    const nowMs = this.#clock.now()
    const where = { id, organisationId, storageKey, expiresAt: { gt: new Date(nowMs + tooLateMs) } }
    const row = await this.#db.file.findFirst({ where })
    if (!row || row.bytes === 0n) return null
    const expiresAt = new Date(nowMs + keptForJobsMs)
    if (row.expiresAt >= expiresAt) return row
    const { count } = await this.#db.file.updateMany({ where, data: { expiresAt } })
    return count === 1 ? { ...row, expiresAt } : null
  }

  /** Removes files before their time. */
  async remove(files: readonly { fileId: string; storageKey: string }[]): Promise<void> {
    if (files.length === 0) return
    await this.#blobs.remove(files.map(({ storageKey }) => storageKey))
    await this.#db.file.deleteMany({ where: { id: { in: files.map(({ fileId }) => fileId) } } })
  }

  /** Deletes what has expired; gives the number of files. */
  async expire(nowMs: number): Promise<number> {
    let deleted = 0
    for (let page = 0; page < mostPages; page++) {
      const rows = await this.#db.file.findMany({
        where: { expiresAt: { lte: new Date(nowMs) } },
        select: { id: true, storageKey: true },
        orderBy: { expiresAt: 'asc' },
        take: pageSize,
      })
      await this.remove(rows.map(({ id, storageKey }) => ({ fileId: id, storageKey })))
      deleted += rows.length
      if (rows.length < pageSize) break
    }
    return deleted
  }
}
