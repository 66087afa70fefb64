import { newId } from '../base/ids.ts'
import type { Quotas } from '../base/quotas.ts'
import type { Clock } from '../base/time.ts'
import type { File, Prisma } from '../generated/prisma/client.ts'
import type { Blobs } from '../io/blobs.ts'
import type { Beside, Connection, Database } from '../io/db.ts'
import { extensionOf } from '../io/media-type.ts'
import { type FileOwner, StorageQuota } from './storage-quota.ts'

/** The folder of storage by what a file is for. */
const folders = {
  upload: 'uploads',
  reference: 'references',
  result: 'results',
  batch: 'batches',
  batch_output: 'batches',
  batch_part: 'batches',
  answer: 'answers',
} as const
export type FilePurpose = keyof typeof folders
/** The files that keys see under `/v1/files`. */
export const shownPurposes = ['batch', 'batch_output'] as const satisfies FilePurpose[]
type ShownPurpose = (typeof shownPurposes)[number]

export type { File, FileOwner }

/** What is refused when there is no room for it. Results are paid for: they are kept all the same. */
const refusable: ReadonlySet<FilePurpose> = new Set(['upload', 'reference', 'batch', 'answer'])

export type NewFile = {
  organisationId: string
  /** Whose keys see it, if keys are to see it, and whose quota it counts against. */
  environment: File['environment']
  purpose: FilePurpose
  filename: string
  contentType: string
  expiresAtMs: number
  /** A file of this id is replaced, so that work which is done again leaves one file. Lists of files go by their ids. */
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
  readonly quota: StorageQuota

  constructor({ db, blobs, clock, quotas }: { db: Database; blobs: Blobs; clock: Clock; quotas: Quotas }) {
    this.#db = db
    this.#blobs = blobs
    this.#clock = clock
    this.quota = new StorageQuota(db, quotas)
  }

  /**
   * Stores a body. Its row is there before its bytes are, so that whatever a crash leaves behind expires. Throws 403
   * `quota_exceeded` for anything but results when it would be more than its owner may have.
   */
  async store(body: AsyncIterable<Uint8Array>, file: NewFile): Promise<StoredFile> {
    const { organisationId, environment, purpose, contentType } = file
    const isRefusable = refusable.has(purpose)
    const { id = newId(purpose === 'upload' ? 'upl' : 'file') } = file
    const storageKey = `${folders[purpose]}/${organisationId}/${id}.${extensionOf(contentType)}`
    const row = {
      organisationId,
      environment,
      purpose,
      filename: file.filename.slice(0, mostFilenameCharacters).replaceAll('\0', '').toWellFormed(),
      bytes: 0n,
      contentType,
      storageKey,
      expiresAt: new Date(file.expiresAtMs),
    }
    const within = (write: (tx: Connection) => Promise<unknown>) =>
      this.#db.$transaction(async tx => {
        await write(tx)
        if (isRefusable) await this.quota.assertWithin(tx, file)
      })
    const create = { id, ...row, createdAt: new Date(this.#clock.now()) }
    await within(tx => tx.file.upsert({ where: { id }, create, update: row }))
    try {
      const taken = isRefusable ? this.quota.metered(body, file) : body
      const bytes = await this.#blobs.write(storageKey, taken, contentType)
      await within(tx => tx.file.update({ where: { id }, data: { bytes } }))
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

  /** Shows a stored file to its owner's keys, as `publish` does, with whatever `beside` writes. */
  publishWith(fileId: string, purpose: ShownPurpose, lifeMs: number, beside: Beside<File>): Promise<File> {
    return this.#db.$transaction(async tx => {
      await this.publish(tx, [fileId], purpose, lifeMs)
      const file = await tx.file.findUniqueOrThrow({ where: { id: fileId } })
      await beside(tx, file)
      return file
    })
  }

  /** Shows stored files to their owner's keys, for so long from when they were made. For a transaction or alone. */
  async publish(db: Connection, fileIds: readonly string[], purpose: ShownPurpose, lifeMs: number): Promise<void> {
    await db.$executeRaw`
      UPDATE files SET purpose = ${purpose}, expires_at = created_at + ${lifeMs}::float8 * interval '1 millisecond'
      WHERE id = ANY(${fileIds})`
  }

  /** A file that the owner's keys see; null also for another owner's. */
  find(id: string, owner: FileOwner): Promise<File | null> {
    return this.#db.file.findFirst({ where: { ...this.#shownTo(owner), id } })
  }

  /** A page of the files that the owner's keys see, by their ids, which are in the order of their making. */
  list(
    owner: FileOwner,
    { limit, after, order, purpose }: { limit: number; after?: string; order: 'asc' | 'desc'; purpose?: string },
  ): Promise<File[]> {
    return this.#db.file.findMany({
      where: {
        ...this.#shownTo(owner),
        ...(purpose !== undefined && { purpose: { in: shownPurposes.filter(shown => shown === purpose) } }),
        // The file itself may be gone since: the page starts at its place.
        ...(after !== undefined && { id: { [order === 'desc' ? 'lt' : 'gt']: after } }),
      },
      orderBy: { id: order },
      take: limit,
    })
  }

  /** Deletes a file for its owner, at once; false when there is none. Its bytes stay while a batch reads them. */
  async delete(id: string, owner: FileOwner): Promise<boolean> {
    const now = new Date(this.#clock.now())
    const { count } = await this.#db.file.updateMany({
      where: { ...this.#shownTo(owner), id },
      // Expired as well, so that the housekeeping finds it.
      data: { deletedAt: now, expiresAt: now },
    })
    if (count === 1) await this.released(id).catch(() => {}) // The housekeeping does it.
    return count === 1
  }

  /**
   * The file that a new batch is to read; null when there is none, or it is about to go. For the transaction that writes the
   * batch: until its end nobody can delete the file, and afterwards the bytes stay until the batch is over.
   */
  async batchInput(tx: Connection, id: string, owner: FileOwner): Promise<File | null> {
    await tx.$queryRaw`SELECT 1 FROM files WHERE id = ${id} FOR SHARE`
    const expiresAt = { gt: new Date(this.#clock.now() + tooLateMs) }
    return tx.file.findFirst({ where: { ...this.#shownTo(owner), id, purpose: 'batch', expiresAt } })
  }

  /** A batch that read the file is over: what stayed for its sake alone goes. */
  async released(fileId: string): Promise<void> {
    await this.remove(await this.#ended(this.#clock.now(), fileId))
  }

  /** Removes files before their time. */
  async remove(files: readonly { fileId: string; storageKey: string }[]): Promise<void> {
    if (files.length === 0) return
    await this.#blobs.remove(files.map(({ storageKey }) => storageKey))
    await this.#db.file.deleteMany({ where: { id: { in: files.map(({ fileId }) => fileId) } } })
  }

  /** Deletes what has expired, unless a batch still needs it; gives the number of files. */
  async expire(nowMs: number): Promise<number> {
    let deleted = 0
    for (let page = 0; page < mostPages; page++) {
      const files = await this.#ended(nowMs)
      await this.remove(files)
      deleted += files.length
      if (files.length < pageSize) break
    }
    return deleted
  }

  /** Expired files that are no unfinished batch's input or part of its output: all, or the one of this id if it is one of them. */
  #ended(nowMs: number, fileId: string | null = null): Promise<{ fileId: string; storageKey: string }[]> {
    return this.#db.$queryRaw`
      SELECT id AS "fileId", storage_key AS "storageKey" FROM files
      WHERE expires_at <= ${new Date(nowMs)} AND (${fileId}::text IS NULL OR id = ${fileId})
        AND NOT EXISTS (
          SELECT 1 FROM batches
          WHERE input_file_id = files.id AND status IN ('validating', 'in_progress', 'finalizing', 'cancelling')
        )
        AND NOT EXISTS (SELECT 1 FROM batch_parts WHERE file_id = files.id)
      ORDER BY expires_at LIMIT ${pageSize}`
  }

  #shownTo({ organisationId, environment }: FileOwner) {
    return {
      organisationId,
      environment,
      purpose: { in: [...shownPurposes] },
      bytes: { gt: 0n },
      deletedAt: null,
      expiresAt: { gt: new Date(this.#clock.now()) },
    } satisfies Prisma.FileWhereInput
  }
}
