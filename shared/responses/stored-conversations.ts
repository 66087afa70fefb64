import { setImmediate } from 'node:timers/promises'
import { newId } from '../base/ids.ts'
import type { JsonMeter } from '../base/json.ts'
import { type Clock, dayMs } from '../base/time.ts'
import type { FileOwner } from '../files/files.ts'
import { type Conversation, type ConversationItem, Prisma } from '../generated/prisma/client.ts'
import type { Connection, Database, TransactionStep } from '../io/db.ts'
import type { Sealer } from '../io/sealer.ts'
import { ownId } from './item-ids.ts'
import { dropOnFailure, type Keeping, type Payload, type Payloads, readCurrent } from './payloads.ts'

export type { Conversation }
/** An item with the id by which the conversation lists it. */
export type ListedItem = { id: string; item: object }
/** Where an item is, and how long it is as JSON. */
export type ItemPlace = Pick<ConversationItem, 'number' | 'id' | 'itemBytes'>

type Page = { limit: number; after?: string; order: 'asc' | 'desc' }
type ItemRow = Pick<ConversationItem, 'number' | 'conversationId' | 'id' | 'item' | 'itemFileId'>

const pageSize = 100
const maxPages = 500
/** Items are read in pages, as each may have megabytes: other requests run in between. */
const itemsPerRead = 500
/** Items that are prepared in one turn of the event loop, unless they are long. */
const itemsPerTurn = 100
const bytesPerTurn = 256 * 1024
const placeColumns = { number: true, id: true, itemBytes: true } as const

/** Conversations that were not used for their retention. */
export function expiredConversations(nowMs: number): Prisma.Sql {
  return Prisma.sql`expires_at <= ${new Date(nowMs)}`
}

type Deps = { db: Database; clock: Clock; payloads: Payloads }

/** The rows of conversations and their items, and their only writer. */
export class Conversations {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Creates an empty conversation, in a transaction with its items and what `beside` writes. */
  async create(
    { organisationId, environment }: FileOwner,
    { metadata, items, retentionDays }: { metadata: Metadata; items: readonly object[]; retentionDays: number },
    beside: TransactionStep<Conversation>,
  ): Promise<Conversation> {
    const id = newId('conv')
    const expiresAt = new Date(this.#deps.clock.now() + retentionDays * dayMs)
    const owner = { organisationId, environment }
    const prepared = await this.prepareItems(id, owner, items, { expiresAtMs: expiresAt.getTime() })
    return dropOnFailure(prepared, () =>
      this.#deps.db.$transaction(async tx => {
        const columns = sealMetadata(this.#deps.payloads.sealer, id, metadata)
        const data = { id, ...owner, ...columns, createdAt: new Date(this.#deps.clock.now()), expiresAt }
        const created = { ...(await tx.conversation.create({ data })), metadata }
        await prepared.insert(tx)
        await beside(tx, created)
        return created
      }),
    )
  }

  /** An owner's conversation; null also for another's, and once it has expired. */
  async find(id: string, owner: FileOwner): Promise<Conversation | null> {
    const row = await this.#deps.db.conversation.findFirst({ where: this.#visibleTo(owner, id) })
    return row && withMetadata(this.#deps.payloads.sealer, row)
  }

  /** Replaces the metadata of an owner's conversation; null if there is none. */
  async update(id: string, owner: FileOwner, metadata: Metadata): Promise<Conversation | null> {
    const data = sealMetadata(this.#deps.payloads.sealer, id, metadata)
    const { count } = await this.#deps.db.conversation.updateMany({ where: this.#visibleTo(owner, id), data })
    return count === 1 ? this.find(id, owner) : null
  }

  /** Deletes an owner's conversation with its items; false if there is none. */
  async delete(id: string, owner: FileOwner): Promise<boolean> {
    const fileIds = await this.#fileIds([id])
    const { count } = await this.#deps.db.conversation.deleteMany({ where: this.#visibleTo(owner, id) })
    if (count === 1) await this.#deps.payloads.remove(fileIds)
    return count === 1
  }

  /** How many items a conversation has, and their length as JSON. */
  async measure(id: string): Promise<{ count: number; bytes: number }> {
    const where = { conversationId: id }
    const figures = { _count: true, _sum: { itemBytes: true } } as const
    const { _count, _sum } = await this.#deps.db.conversationItem.aggregate({ where, ...figures })
    return { count: _count, bytes: _sum.itemBytes ?? 0 }
  }

  /** All items in their order; `meter` counts each before it is parsed, and may throw. */
  async readItems(id: string, meter: JsonMeter | null = null): Promise<ListedItem[]> {
    const items: ListedItem[] = []
    for (let after = 0n; ; ) {
      const rows = await readCurrent(async () => {
        const found = await this.#deps.db.$queryRaw<ItemRow[]>`
          SELECT number, conversation_id AS "conversationId", id, item, item_file_id AS "itemFileId"
          FROM conversation_items WHERE conversation_id = ${id} AND number > ${after}
          ORDER BY number LIMIT ${itemsPerRead}`
        const read = await this.#read(found, meter)
        for (const [index, { id }] of found.entries()) items.push({ id, item: read[index]! })
        return found
      })
      if (rows.length < itemsPerRead) return items
      after = rows.at(-1)!.number
    }
  }

  /** A page of a conversation's items without their content; one that follows an unknown id is null. */
  async listItems(id: string, { limit, after, order }: Page): Promise<ItemPlace[] | null> {
    const last = after === undefined ? null : await this.findItem(id, after)
    if (after !== undefined && !last) return null
    return this.#deps.db.conversationItem.findMany({
      where: { conversationId: id, ...(last && { number: { [order === 'desc' ? 'lt' : 'gt']: last.number } }) },
      select: placeColumns,
      orderBy: { number: order },
      take: limit,
    })
  }

  /** The first item of that id, without its content. Null if there is none. */
  findItem(id: string, itemId: string): Promise<ItemPlace | null> {
    const where = { conversationId: id, id: itemId }
    return this.#deps.db.conversationItem.findFirst({ where, select: placeColumns, orderBy: { number: 'asc' } })
  }

  /** The newest item of each of these ids in an owner's conversations, without its content. */
  findItems({ organisationId, environment }: FileOwner, ids: readonly string[]): Promise<ItemPlace[]> {
    return this.#deps.db.$queryRaw<ItemPlace[]>`
      SELECT DISTINCT ON (i.id) i.number, i.id, i.item_bytes AS "itemBytes"
      FROM conversation_items i JOIN conversations c ON c.id = i.conversation_id
      WHERE i.organisation_id = ${organisationId} AND i.environment = ${environment}::environment
        AND i.id = ANY(${ids}) AND c.expires_at > ${new Date(this.#deps.clock.now())}
      ORDER BY i.id, i.number DESC`
  }

  /** The items at these places, in their order; without those that were deleted meanwhile. `meter`: as for `items`. */
  readPlaces(places: readonly ItemPlace[], meter: JsonMeter | null = null): Promise<ListedItem[]> {
    const number = { in: places.map(one => one.number) }
    return readCurrent(async () => {
      const found = await this.#deps.db.conversationItem.findMany({ where: { number } })
      const byNumber = new Map(found.map(row => [row.number, row]))
      const rows = places.flatMap(({ number }) => byNumber.get(number) ?? [])
      const items = await this.#read(rows, meter)
      return rows.map(({ id }, index) => ({ id, item: items[index]! }))
    })
  }

  /** Deletes the first item of that id; false if there is none. */
  async deleteItem(id: string, itemId: string): Promise<boolean> {
    const where = { conversationId: id, id: itemId }
    const select = { number: true, itemFileId: true } as const
    const row = await this.#deps.db.conversationItem.findFirst({ where, select, orderBy: { number: 'asc' } })
    if (!row) return false
    const { count } = await this.#deps.db.conversationItem.deleteMany({ where: { number: row.number } })
    await this.#deps.payloads.remove([row.itemFileId])
    return count === 1
  }

  /**
   * Prepares items for their rows: the result inserts them in a transaction, or drops what was written for them. An item
   * without an id, or with that of another one, is listed by a new id. Throws 403 `quota_exceeded`, unless they are `isPaidFor`.
   */
  async prepareItems(conversationId: string, owner: FileOwner, items: readonly object[], keeping: Keeping) {
    const rows: PreparedItem[] = []
    const drop = () => this.#deps.payloads.remove(rows.map(({ fileId }) => fileId))
    const used = await this.#usedIds(conversationId, items)
    let turnCharacters = 0
    try {
      for (const item of items) {
        const own = ownId(item)
        const id = own === null || used.has(own) ? newId('item') : own
        used.add(id)
        const text = JSON.stringify(item)
        const place = itemPlace({ conversationId, id })
        const { bytes, fileId } = await this.#deps.payloads.write(owner, text, { place, ...keeping })
        rows.push({ id, bytes, fileId, itemBytes: Buffer.byteLength(text) })
        turnCharacters += text.length
        if (rows.length % itemsPerTurn > 0 && turnCharacters < bytesPerTurn) continue
        turnCharacters = 0
        await setImmediate()
      }
    } catch (error) {
      await drop()
      throw error
    }
    return {
      listed: rows.map(({ id }, index): ListedItem => ({ id, item: items[index]! })),
      insert: (tx: Connection) => insertItems(tx, conversationId, owner, rows),
      drop,
    }
  }

  /**
   * Locks an owner's conversation for a transaction that adds items, and postpones its expiry with that of its files; false
   * if there is none.
   */
  async touch(tx: Connection, id: string, owner: FileOwner, expiresAtMs: number): Promise<boolean> {
    const expiresAt = new Date(expiresAtMs)
    const { count } = await tx.conversation.updateMany({ where: this.#visibleTo(owner, id), data: { expiresAt } })
    if (count === 0) return false
    await tx.$executeRaw`
      UPDATE files SET expires_at = ${expiresAt} WHERE id IN (
        SELECT item_file_id FROM conversation_items WHERE conversation_id = ${id} AND item_file_id IS NOT NULL)`
    return true
  }

  /** Deletes conversations that were not used for their retention; returns their number. */
  async expire(nowMs: number): Promise<number> {
    let deleted = 0
    for (let page = 0; page < maxPages; page++) {
      const rows = await this.#deps.db.$queryRaw<{ id: string }[]>`
        SELECT id FROM conversations WHERE ${expiredConversations(nowMs)} LIMIT ${pageSize}`
      const ids = rows.map(({ id }) => id)
      const fileIds = await this.#fileIds(ids)
      const { count } = await this.#deps.db.conversation.deleteMany({
        where: { expiresAt: { lte: new Date(nowMs) }, id: { in: ids } },
      })
      // One that was used meanwhile keeps its files: they expire later, too.
      if (count === ids.length) await this.#deps.payloads.remove(fileIds)
      deleted += count
      if (rows.length < pageSize) break
    }
    return deleted
  }

  /** Encrypts all items and metadata with the current key; returns the number of those that were not. */
  async reseal(): Promise<number> {
    let changed = await resealMetadata(this.#deps.db, this.#deps.payloads.sealer)
    for (let after = 0n; ; ) {
      const rows = await this.#deps.db.conversationItem.findMany({
        where: { number: { gt: after } },
        include: { conversation: { select: { expiresAt: true } } },
        orderBy: { number: 'asc' },
        take: pageSize,
      })
      for (const { conversation, ...row } of rows) if (await this.#resealItem(row, conversation.expiresAt)) changed++
      if (rows.length < pageSize) return changed
      after = rows.at(-1)!.number
    }
  }

  async #resealItem(row: ConversationItem, expiresAt: Date): Promise<boolean> {
    const before = { bytes: row.item, fileId: row.itemFileId }
    const at = { place: itemPlace(row), expiresAtMs: expiresAt.getTime() }
    const after = await this.#deps.payloads.reseal(row, before, at)
    if (!after) return false
    const { count } = await this.#deps.db.conversationItem.updateMany({
      where: { number: row.number },
      data: { item: after.bytes, itemFileId: after.fileId, storedBytes: after.bytes?.length ?? 0 },
    })
    await this.#deps.payloads.remove([(count === 1 ? before : after).fileId])
    return count === 1
  }

  /** The ids of these items that the conversation has already. */
  async #usedIds(conversationId: string, items: readonly object[]): Promise<Set<string>> {
    const ids = items.flatMap(item => ownId(item) ?? [])
    if (ids.length === 0) return new Set()
    const rows = await this.#deps.db.$queryRaw<{ id: string }[]>`
      SELECT DISTINCT id FROM conversation_items WHERE conversation_id = ${conversationId} AND id = ANY(${ids})`
    return new Set(rows.map(({ id }) => id))
  }

  async #fileIds(ids: readonly string[]): Promise<(string | null)[]> {
    const rows = await this.#deps.db.conversationItem.findMany({
      where: { conversationId: { in: [...ids] }, itemFileId: { not: null } },
      select: { itemFileId: true },
    })
    return rows.map(({ itemFileId }) => itemFileId)
  }

  #read(rows: readonly ItemRow[], meter: JsonMeter | null = null): Promise<object[]> {
    return this.#deps.payloads.read(
      rows.map(row => ({ payload: { bytes: row.item, fileId: row.itemFileId }, place: itemPlace(row) })),
      meter,
    )
  }

  #visibleTo({ organisationId, environment }: FileOwner, id: string) {
    return { id, organisationId, environment, expiresAt: { gt: new Date(this.#deps.clock.now()) } }
  }
}

function itemPlace({ conversationId, id }: { conversationId: string; id: string }): string {
  return `conversation_items.item ${conversationId} ${id}`
}

export type Metadata = Record<string, string>
type Columns = Pick<Conversation, 'id' | 'metadata' | 'sealedMetadata'>

/** The columns of a conversation's metadata; a process of a release before encryption reads encrypted metadata as empty. */
function sealMetadata(sealer: Sealer, id: string, metadata: Metadata) {
  if (!sealer.encrypts || isEmpty(metadata)) return { metadata, sealedMetadata: null }
  const bytes = sealer.sealBytes(Buffer.from(JSON.stringify(metadata)), placeOf(id))
  return { metadata: {}, sealedMetadata: new Uint8Array(bytes) }
}

/** A conversation with its metadata. What is in clear was written before encryption, or over it by a process of that release. */
function withMetadata<T extends Columns>(sealer: Sealer, row: T): T & { metadata: Metadata } {
  const { id, metadata, sealedMetadata } = row
  if (!sealedMetadata || !isEmpty(metadata)) return { ...row, metadata: metadata as Metadata }
  const text = sealer.openBytes(Buffer.from(sealedMetadata), placeOf(id)).toString()
  return { ...row, metadata: JSON.parse(text) as Metadata }
}

/** Encrypts the metadata of all conversations with the current key; returns the number of those that were not. */
async function resealMetadata(db: Database, sealer: Sealer): Promise<number> {
  let changed = 0
  for (let after = ''; ; ) {
    const rows = await db.conversation.findMany({
      where: { id: { gt: after } },
      orderBy: { id: 'asc' },
      take: pageSize,
    })
    for (const row of rows) {
      const { id, metadata, sealedMetadata } = row
      if (isEmpty(metadata) && (!sealedMetadata || sealer.isCurrentBytes(Buffer.from(sealedMetadata)))) continue
      const data = sealMetadata(sealer, id, withMetadata(sealer, row).metadata)
      // One that was changed meanwhile is encrypted already.
      const where = { id, sealedMetadata, metadata: { equals: metadata as Metadata } }
      changed += (await db.conversation.updateMany({ where, data })).count
    }
    if (rows.length < pageSize) return changed
    after = rows.at(-1)!.id
  }
}

function isEmpty(metadata: unknown): boolean {
  return Object.keys(metadata as object).length === 0
}

function placeOf(id: string): string {
  return `conversations.metadata ${id}`
}

/** An item of a conversation that is ready to be inserted; `itemBytes`: its length as JSON. */
type PreparedItem = Payload & { id: string; itemBytes: number }

/** Of one statement: other requests run in between. */
const maxRows = 500
const maxBytes = 4 * 1024 * 1024
const empty = Buffer.alloc(0)

/** Inserts items in their order, in groups. */
async function insertItems(
  tx: Connection,
  conversationId: string,
  owner: FileOwner,
  items: readonly PreparedItem[],
): Promise<void> {
  let group: PreparedItem[] = []
  let bytes = 0
  for (const item of items) {
    group.push(item)
    bytes += item.bytes?.length ?? 0
    if (group.length < maxRows && bytes < maxBytes) continue
    await insertGroup(tx, conversationId, owner, group)
    group = []
    bytes = 0
  }
  if (group.length > 0) await insertGroup(tx, conversationId, owner, group)
}

/** Inserts rows by one statement: their bytes are one value, of which each row takes its part. */
async function insertGroup(
  tx: Connection,
  conversationId: string,
  { organisationId, environment }: FileOwner,
  rows: readonly PreparedItem[],
): Promise<void> {
  const bytes = Buffer.concat(rows.map(row => row.bytes ?? empty))
  const lengths = rows.map(row => row.bytes?.length ?? 0)
  let end = 0
  const starts = lengths.map(length => (end += length) - length + 1)
  await tx.$executeRaw`
    INSERT INTO conversation_items
      (conversation_id, organisation_id, environment, id, item, item_file_id, item_bytes, stored_bytes)
    SELECT ${conversationId}, ${organisationId}, ${environment}::environment, id,
      CASE WHEN file_id = '' THEN substring(${bytes}::bytea FROM start FOR length) END, nullif(file_id, ''), item_bytes, length
    FROM unnest(${rows.map(({ id }) => id)}::text[], ${rows.map(({ fileId }) => fileId ?? '')}::text[],
      ${rows.map(({ itemBytes }) => itemBytes)}::int[], ${starts}::int[], ${lengths}::int[])
      WITH ORDINALITY AS added(id, file_id, item_bytes, start, length, place)
    ORDER BY place`
}
