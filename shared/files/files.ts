import { newId } from '../base/ids.ts'
import type { Quotas } from '../base/quotas.ts'
import { storableText } from '../base/storable-text.ts'
import { type Clock, dayMs } from '../base/time.ts'
import { type File, Prisma } from '../generated/prisma/client.ts'
import type { Connection, Database, TransactionStep } from '../io/db.ts'
import type { Removable } from '../io/expired-rows.ts'
import { extensionOf } from '../io/media/media-type.ts'
import type { Blobs } from '../io/storage/blobs.ts'
import { type FileOwner, StorageQuota } from './storage-quota.ts'

/** The storage folder of each purpose. */
const folders = {
  upload: 'uploads',
  reference: 'references',
  result: 'results',
  batch: 'batches',
  batch_output: 'batches',
  batch_part: 'batches',
  ocr: 'documents',
  answer: 'answers',
  response: 'responses',
  content: 'contents',
} as const
type FilePurpose = keyof typeof folders
/** The purposes that are visible to keys under `/v1/files`. */
export const publicPurposes = ['batch', 'batch_output', 'ocr'] as const satisfies FilePurpose[]
type PublicPurpose = (typeof publicPurposes)[number]

export type { File, FileOwner }

/** Purposes that are refused beyond the quota. Results are paid for, so they are always stored. */
const refusable: ReadonlySet<FilePurpose> = new Set([
  'upload',
  'reference',
  'batch',
  'ocr',
  'answer',
  'response',
  'content',
])

type NewFile = {
  organisationId: string
  /** The environment whose keys see it, if its purpose is public, and whose quota it counts against. */
  environment: File['environment']
  purpose: FilePurpose
  filename: string
  contentType: string
  expiresAtMs: number
  /** Whether it is the result of work that is paid for, whatever its purpose. */
  isPaidFor?: boolean
  /** A file with this id is replaced, so that a retry leaves one file. File lists are ordered by id. */
  id?: string
}
export type StoredFile = { fileId: string; storageKey: string; contentType: string; bytes: number }

/** Retention of files that a queued job may refer to. */
export const retainedForJobsMs = dayMs
const maxFilenameCharacters = 200
const pageSize = 500
const maxPages = 200
/** A file this close to its expiry is no longer retained, as it may already be being deleted. */
const tooLateMs = 60_000

/** Expired files that no unfinished batch needs as input or output part. */
function expiredFiles(nowMs: number): Prisma.Sql {
  return Prisma.sql`expires_at <= ${new Date(nowMs)}
    AND NOT EXISTS (
      SELECT 1 FROM batches
      WHERE input_file_id = files.id AND status IN ('validating', 'in_progress', 'finalizing', 'cancelling')
    )
    AND NOT EXISTS (SELECT 1 FROM batch_parts WHERE file_id = files.id)`
}

/** The files of organisations: their rows, and their bytes in storage. */
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
   * Stores a body. Its row is inserted before its bytes are written, so that a crash leaves nothing that does not expire.
   * Throws 403 `quota_exceeded` if the owner's quota would be exceeded, except for results.
   */
  async store(body: AsyncIterable<Uint8Array>, file: NewFile): Promise<StoredFile> {
    const { organisationId, environment, purpose, contentType } = file
    const isRefusable = refusable.has(purpose) && !file.isPaidFor
    const { id = newId(purpose === 'upload' ? 'upl' : 'file') } = file
    const storageKey = `${folders[purpose]}/${organisationId}/${id}.${extensionOf(contentType)}`
    const row = {
      organisationId,
      environment,
      purpose,
      filename: storableText(file.filename.slice(0, maxFilenameCharacters)),
      bytes: 0n,
      contentType,
      storageKey,
      expiresAt: new Date(file.expiresAtMs),
    }
    const writeWithinQuota = (write: (tx: Connection) => Promise<unknown>) =>
      this.#db.$transaction(async tx => {
        await write(tx)
        if (isRefusable) await this.quota.assertWithin(tx, file)
      })
    const create = { id, ...row, createdAt: new Date(this.#clock.now()) }
    await writeWithinQuota(tx => tx.file.upsert({ where: { id }, create, update: row }))
    try {
      const content = isRefusable ? this.quota.metered(body, file) : body
      const bytes = await this.#blobs.write(storageKey, content, contentType)
      await writeWithinQuota(tx => tx.file.update({ where: { id }, data: { bytes } }))
      return { fileId: id, storageKey, contentType, bytes }
    } catch (error) {
      await this.remove([{ fileId: id, storageKey }]).catch(() => {}) // It expires.
      throw error
    }
  }

  /** The storage key of an organisation's upload; null if there is none. */
  async findUploadKey(organisationId: string, id: string): Promise<string | null> {
    const row = await this.#db.file.findFirst({ where: { id, organisationId, purpose: 'upload' } })
    return row?.storageKey ?? null
  }

  /** Extends the expiry of an organisation's file, by storage key, for as long as jobs need it; null when there is none. */
  async retain(organisationId: string, storageKey: string): Promise<File | null> {
    const id = /([^/]+)\.\w+$/.exec(storageKey)?.[1]
    if (!id) return null
    const nowMs = this.#clock.now()
    const where = { id, organisationId, storageKey, expiresAt: { gt: new Date(nowMs + tooLateMs) } }
    const row = await this.#db.file.findFirst({ where })
    if (!row || row.bytes === 0n) return null
    const expiresAt = new Date(nowMs + retainedForJobsMs)
    if (row.expiresAt >= expiresAt) return row
    const { count } = await this.#db.file.updateMany({ where, data: { expiresAt } })
    return count === 1 ? { ...row, expiresAt } : null
  }

  /** Publishes a stored file as `publish` does, in one transaction with what `beside` writes. */
  publishWith(fileId: string, purpose: PublicPurpose, lifeMs: number, beside: TransactionStep<File>): Promise<File> {
    return this.#db.$transaction(async tx => {
      await this.publish(tx, [fileId], purpose, lifeMs)
      const file = await tx.file.findUniqueOrThrow({ where: { id: fileId } })
      await beside(tx, file)
      return file
    })
  }

  /** Makes stored files visible to their owner's keys, for `lifeMs` from their creation. With or without a transaction. */
  async publish(db: Connection, fileIds: readonly string[], purpose: PublicPurpose, lifeMs: number): Promise<void> {
    await db.$executeRaw`
      UPDATE files SET purpose = ${purpose}, expires_at = created_at + ${lifeMs}::float8 * interval '1 millisecond'
      WHERE id = ANY(${fileIds})`
  }

  /** A file that is visible to the owner's keys; null also for another owner's. */
  find(id: string, owner: FileOwner): Promise<File | null> {
    return this.#db.file.findFirst({ where: { ...this.#visibleTo(owner), id } })
  }

  /** A page of the files that are visible to the owner's keys, by id, which is creation order. */
  list(
    owner: FileOwner,
    { limit, after, order, purpose }: { limit: number; after?: string; order: 'asc' | 'desc'; purpose?: string },
  ): Promise<File[]> {
    return this.#db.file.findMany({
      where: {
        ...this.#visibleTo(owner),
        ...(purpose !== undefined && { purpose: { in: publicPurposes.filter(shown => shown === purpose) } }),
        // The file itself may have been deleted: the page starts after its id.
        ...(after !== undefined && { id: { [order === 'desc' ? 'lt' : 'gt']: after } }),
      },
      orderBy: { id: order },
      take: limit,
    })
  }

  /** Deletes a file for its owner at once; false when there is none. Its bytes stay while a batch reads them. */
  async delete(id: string, owner: FileOwner): Promise<boolean> {
    const now = new Date(this.#clock.now())
    const { count } = await this.#db.file.updateMany({
      where: { ...this.#visibleTo(owner), id },
      // Expired as well, so that the maintenance task finds it.
      data: { deletedAt: now, expiresAt: now },
    })
    if (count === 1) await this.releaseInput(id).catch(() => {}) // The maintenance task repeats it.
    return count === 1
  }

  /**
   * Finds the input file of a new batch; null when there is none, or it is about to expire. For the transaction that inserts
   * the batch: a share lock prevents deletion until its end, and afterwards the bytes stay until the batch is over.
   */
  async findBatchInput(tx: Connection, id: string, owner: FileOwner): Promise<File | null> {
    await tx.$queryRaw`SELECT 1 FROM files WHERE id = ${id} FOR SHARE`
    const expiresAt = { gt: new Date(this.#clock.now() + tooLateMs) }
    return tx.file.findFirst({ where: { ...this.#visibleTo(owner), id, purpose: 'batch', expiresAt } })
  }

  /** The storage keys of files by id; files that are gone are absent. */
  async findStorageKeys(ids: readonly string[]): Promise<Map<string, string>> {
    const rows = await this.#db.file.findMany({
      where: { id: { in: [...ids] } },
      select: { id: true, storageKey: true },
    })
    return new Map(rows.map(({ id, storageKey }) => [id, storageKey]))
  }

  /** Removes the input of a batch that is over, if the file has expired or was deleted. */
  async releaseInput(fileId: string): Promise<void> {
    await this.#erase(await this.#listExpired(this.#clock.now(), fileId))
  }

  /**
   * Removes files and their bytes before they expire. Their rows expire first: while the database is away the bytes stay as well,
   * and the maintenance task repeats what was interrupted.
   */
  async remove(files: readonly { fileId: string; storageKey: string }[]): Promise<void> {
    if (files.length === 0) return
    const where = { id: { in: files.map(({ fileId }) => fileId) } }
    await this.#db.file.updateMany({ where, data: { expiresAt: new Date(this.#clock.now()) } })
    await this.#erase(files)
  }

  /** Removes stored answers by their storage keys, as `remove` does. */
  async removeAnswers(organisationId: string, storageKeys: string[]): Promise<void> {
    const where = { organisationId, purpose: 'answer', storageKey: { in: storageKeys } }
    const rows = await this.#db.file.findMany({ where, select: { id: true, storageKey: true } })
    await this.remove(rows.map(({ id, storageKey }) => ({ fileId: id, storageKey })))
  }

  /** Removes the bytes of files that have expired, then their rows. */
  async #erase(files: readonly { fileId: string; storageKey: string }[]): Promise<void> {
    if (files.length === 0) return
    await this.#blobs.remove(files.map(({ storageKey }) => storageKey))
    await this.#db.file.deleteMany({ where: { id: { in: files.map(({ fileId }) => fileId) } } })
  }

  /** Deletes expired files, unless a batch still needs them; returns their number. */
  async expire(nowMs: number): Promise<number> {
    let deleted = 0
    for (let page = 0; page < maxPages; page++) {
      const files = await this.#listExpired(nowMs)
      await this.#erase(files)
      deleted += files.length
      if (files.length < pageSize) break
    }
    return deleted
  }

  /** The files, and the bytes in storage, that `expire` would delete. */
  async measureExpired(nowMs: number): Promise<Removable> {
    const [found] = await this.#db.$queryRaw<{ rows: number; bytes: number }[]>`
      SELECT count(*)::float8 AS rows, coalesce(sum(bytes), 0)::float8 AS bytes FROM files
      WHERE ${expiredFiles(nowMs)}`
    return found!
  }

  /** A page of expired files, or only the one with this id. */
  #listExpired(nowMs: number, fileId: string | null = null): Promise<{ fileId: string; storageKey: string }[]> {
    return this.#db.$queryRaw`
      SELECT id AS "fileId", storage_key AS "storageKey" FROM files
      WHERE ${expiredFiles(nowMs)} AND (${fileId}::text IS NULL OR id = ${fileId})
      ORDER BY expires_at LIMIT ${pageSize}`
  }

  #visibleTo({ organisationId, environment }: FileOwner) {
    return {
      organisationId,
      environment,
      purpose: { in: [...publicPurposes] },
      bytes: { gt: 0n },
      deletedAt: null,
      expiresAt: { gt: new Date(this.#clock.now()) },
    } satisfies Prisma.FileWhereInput
  }
}
