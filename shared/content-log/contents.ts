import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import type { FileOwner, Files } from '../files/files.ts'
import type { RequestContent } from '../generated/prisma/client.ts'
import { type Actor, audit } from '../io/audit.ts'
import { bytesOf } from '../io/bytes.ts'
import type { Database } from '../io/db.ts'
import type { Sealer } from '../io/sealer.ts'
import type { Blobs } from '../io/storage/blobs.ts'

const compress = promisify(gzip)
const decompress = promisify(gunzip)

/** The texts of a request and of its answer. */
export type Content = { input: string; output: string | null }

/** What is known of a content without reading it. */
type ContentFacts = Pick<
  RequestContent,
  'id' | 'inputTruncated' | 'outputTruncated' | 'redactions' | 'createdAt' | 'expiresAt'
>

type Row = Pick<RequestContent, 'id' | 'organisationId'>

/** Beyond this part of the storage quota, what is left is for files that requests need. */
const maxQuotaPart = 0.5
const rowsPerPage = 1_000
/** Unpacked; far more than is ever written. */
const maxUnpackedBytes = 16 * 1024 * 1024

const placeOf = ({ id, organisationId }: Row) => `request_contents.content ${organisationId} ${id}`

type Deps = { db: Database; files: Files; blobs: Blobs; sealer: Sealer }

/**
 * The logged input and output of requests: gzipped and sealed in storage, one file per request, which counts in the storage
 * quota and expires. PostgreSQL has only which file it is (docs/decisions/input-output-log.md).
 */
export class Contents {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Stores a content, unless the request has one. Throws an Error if that would leave too little room for other files. */
  async store(owner: FileOwner, facts: ContentFacts, content: Content): Promise<void> {
    const { id, expiresAt } = facts
    const { organisationId } = owner
    if (!(await this.#deps.files.quota.isBelow(owner, maxQuotaPart)))
      throw new Error('Half of the storage quota is used: no input and output is stored.')
    const packed = await compress(JSON.stringify(content))
    const bytes = this.#deps.sealer.sealBytes(packed, placeOf({ id, organisationId }))
    const { fileId, storageKey } = await this.#deps.files.store(bytesOf(bytes), {
      ...owner,
      expiresAtMs: expiresAt.getTime(),
      purpose: 'content',
      filename: 'content',
      contentType: 'application/octet-stream',
    })
    const inputBytes = Buffer.byteLength(content.input)
    const outputBytes = content.output === null ? 0 : Buffer.byteLength(content.output)
    const { count } = await this.#deps.db.requestContent.createMany({
      data: { ...facts, organisationId, fileId, inputBytes, outputBytes },
      skipDuplicates: true,
    })
    if (count === 0) await this.#deps.files.remove([{ fileId, storageKey }])
  }

  /** What is known of a request's content; null if it has none, or none any more. */
  find(organisationId: string, id: string, nowMs: number): Promise<RequestContent | null> {
    return this.#deps.db.requestContent.findFirst({ where: { id, organisationId, expiresAt: { gt: new Date(nowMs) } } })
  }

  /** Reads a content for someone, which is audited first; null if there is none, or it was deleted. */
  async view(row: RequestContent, actor: Actor): Promise<Content | null> {
    const { id, organisationId } = row
    return this.#read(row, () =>
      audit(this.#deps.db, { organisationId, actor, action: 'request_content.viewed', target: { id, name: id } }),
    )
  }

  /** Reads a content for an export, whose settings are audited; null if there is none, or it was deleted. */
  read(row: RequestContent): Promise<Content | null> {
    return this.#read(row, async () => {})
  }

  async #read(row: RequestContent, onFound: () => Promise<void>): Promise<Content | null> {
    const { fileId } = row
    if (fileId === null) return null
    const storageKey = (await this.#deps.files.findStorageKeys([fileId])).get(fileId)
    if (storageKey === undefined) return null
    await onFound()
    const blob = await this.#deps.blobs.read(storageKey)
    if (!blob) return null
    const packed = this.#deps.sealer.openBytes(await buffer(blob.stream), placeOf(row))
    return JSON.parse((await decompress(packed, { maxOutputLength: maxUnpackedBytes })).toString()) as Content
  }

  /** Deletes a content; that there was one stays known until it would have expired. Idempotent. */
  async delete({ id, organisationId, fileId }: RequestContent, actor: Actor): Promise<void> {
    if (fileId === null) return
    const storageKey = (await this.#deps.files.findStorageKeys([fileId])).get(fileId)
    if (storageKey !== undefined) await this.#deps.files.remove([{ fileId, storageKey }])
    await this.#deps.db.$transaction(async tx => {
      const { count } = await tx.requestContent.updateMany({ where: { id, fileId }, data: { fileId: null } })
      const target = { id, name: id }
      if (count === 1) await audit(tx, { organisationId, actor, action: 'request_content.deleted', target })
    })
  }

  /** Encrypts stored contents with the current key; returns how many were not. */
  async reseal(): Promise<number> {
    let changed = 0
    for (let after = ''; ; ) {
      const rows = await this.#deps.db.requestContent.findMany({
        where: { id: { gt: after }, fileId: { not: null } },
        orderBy: { id: 'asc' },
        take: rowsPerPage,
      })
      for (const row of rows) if (await this.#reseal(row)) changed++
      if (rows.length < rowsPerPage) return changed
      after = rows.at(-1)!.id
    }
  }

  async #reseal(row: RequestContent): Promise<boolean> {
    const storageKey = (await this.#deps.files.findStorageKeys([row.fileId!])).get(row.fileId!)
    const blob = storageKey === undefined ? null : await this.#deps.blobs.read(storageKey)
    if (!blob) return false
    const bytes = await buffer(blob.stream)
    if (this.#deps.sealer.isCurrentBytes(bytes)) return false
    const place = placeOf(row)
    const sealed = this.#deps.sealer.sealBytes(this.#deps.sealer.openBytes(bytes, place), place)
    await this.#deps.blobs.write(storageKey!, bytesOf(sealed), 'application/octet-stream')
    const isGone = (await this.#deps.files.findStorageKeys([row.fileId!])).size === 0
    if (isGone) await this.#deps.blobs.remove([storageKey!])
    return !isGone
  }
}
