import type { JsonMeter } from '../base/json.ts'
import type { Clock } from '../base/time.ts'
import type { FileOwner } from '../files/files.ts'
import { Prisma, type StoredResponse } from '../generated/prisma/client.ts'
import type { Connection, Database } from '../io/db.ts'
import { foundIds } from './item-ids.ts'
import { type Keeping, type Payload, type Payloads, readCurrent } from './payloads.ts'

/** A stored response, without its content. */
export type ResponseRow = Omit<StoredResponse, 'head' | 'items' | 'itemIds'>

/** A response to store: `head` is the response object without its output, `items` its input and its output. */
type NewStoredResponse = Pick<
  StoredResponse,
  'id' | 'organisationId' | 'environment' | 'keyId' | 'status' | 'previousId' | 'conversationId' | 'session'
> & { background?: boolean; streamed?: boolean; expiresAtMs: number } & ResponseContent

/** The response object without its output, and the items of its turn. */
type ResponseContent = { head: object; input: readonly object[]; output: readonly object[] }

/** A turn of a chain of responses. */
export type ChainLink = Pick<
  StoredResponse,
  'id' | 'previousId' | 'status' | 'conversationId' | 'session' | 'itemsBytes'
>

/** A response that has items by ids. */
type ItemHolder = Pick<StoredResponse, 'id' | 'session' | 'itemIds' | 'itemsBytes'>

const pageSize = 200
const maxPages = 500
const withoutContent = { head: true, items: true, itemIds: true } as const

export function expiredResponses(nowMs: number): Prisma.Sql {
  return Prisma.sql`expires_at <= ${new Date(nowMs)}`
}

type Deps = { db: Database; clock: Clock; payloads: Payloads }

/** The rows of stored responses, and their only writer. */
export class StoredResponses {
  readonly #deps: Deps

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /**
   * Prepares a response for its row: the result inserts it in a transaction, or drops what was written for it. Throws 403
   * `quota_exceeded`.
   */
  async prepare(
    response: NewStoredResponse,
  ): Promise<{ insert(tx: Connection): Promise<void>; drop(): Promise<void> }> {
    const { head, input, output, expiresAtMs, ...fields } = response
    const data = {
      ...fields,
      ...(await this.#writeContent(response, { head, input, output }, { expiresAtMs })),
      createdAt: new Date(this.#deps.clock.now()),
      expiresAt: new Date(expiresAtMs),
    }
    return {
      insert: async tx => void (await tx.storedResponse.create({ data, select: { id: true } })),
      drop: () => this.#deps.payloads.remove([data.headFileId, data.itemsFileId]),
    }
  }

  /**
   * Prepares the end of a response in the background, as `prepare` does: `update` replaces the content of its row in a
   * transaction, after which `clean` drops what the row had before. Its answer is paid for: no quota refuses it.
   */
  async prepareEnd(
    row: ResponseRow,
    { status, ...content }: ResponseContent & Pick<StoredResponse, 'status'>,
  ): Promise<{ update(tx: Connection): Promise<void>; drop(): Promise<void>; clean(): Promise<void> }> {
    const { id, headFileId, itemsFileId, expiresAt } = row
    const end = { expiresAtMs: expiresAt.getTime(), isPaidFor: true }
    const data = { status, ...(await this.#writeContent(row, content, end)) }
    return {
      update: async tx => void (await tx.storedResponse.updateMany({ where: { id }, data })),
      drop: () => this.#deps.payloads.remove([data.headFileId, data.itemsFileId]),
      clean: () => this.#deps.payloads.remove([headFileId, itemsFileId]),
    }
  }

  /** The columns of a response's content, of which large parts are written to storage at once. */
  async #writeContent(owner: FileOwner & { id: string }, { head, input, output }: ResponseContent, keeping: Keeping) {
    const items = [...input, ...output]
    const itemIds = foundIds(owner.id, items)
    const [headText, itemsText] = [JSON.stringify(head), JSON.stringify(items)]
    const storedHead = await this.#deps.payloads.write(owner, headText, { place: headPlace(owner.id), ...keeping })
    const storedItems = await this.#deps.payloads
      .write(owner, itemsText, { place: itemsPlace(owner.id), ...keeping })
      .catch(async error => {
        await this.#deps.payloads.remove([storedHead.fileId])
        throw error
      })
    return {
      head: storedHead.bytes,
      headFileId: storedHead.fileId,
      items: storedItems.bytes,
      itemsFileId: storedItems.fileId,
      inputCount: input.length,
      itemIds,
      itemsBytes: Buffer.byteLength(itemsText),
      storedBytes: (storedHead.bytes?.length ?? 0) + (storedItems.bytes?.length ?? 0),
    }
  }

  /** An owner's response; null also for another's, and once it has expired. */
  find(id: string, owner: FileOwner): Promise<ResponseRow | null> {
    return this.#deps.db.storedResponse.findFirst({ where: { ...this.#visibleTo(owner), id }, omit: withoutContent })
  }

  /** The response object without its output. Throws 404 if it is gone. */
  readHead(id: string): Promise<object> {
    return readCurrent(async () => {
      const where = { id }
      const row = await this.#deps.db.storedResponse.findUnique({ where, select: { head: true, headFileId: true } })
      const payload = row ? { bytes: row.head, fileId: row.headFileId } : gone
      const [head] = await this.#deps.payloads.read<object>([{ payload, place: headPlace(id) }])
      return head!
    })
  }

  /**
   * The input and output items of responses, in the order of the ids; `meter` counts them before they are parsed, and may
   * throw. Throws 404 if one is gone.
   */
  readItems(ids: readonly string[], meter: JsonMeter | null = null): Promise<object[][]> {
    return readCurrent(async () => {
      const rows = await this.#deps.db.storedResponse.findMany({
        where: { id: { in: [...ids] } },
        select: { id: true, items: true, itemsFileId: true },
      })
      const payloads = new Map<string, Payload>(
        rows.map(({ id, items, itemsFileId }) => [id, { bytes: items, fileId: itemsFileId }]),
      )
      const places = ids.map(id => ({ payload: payloads.get(id) ?? gone, place: itemsPlace(id) }))
      return this.#deps.payloads.read(places, meter)
    })
  }

  /**
   * The response and those that it continues, newest first, without their content: `maxLength` of them at most. The last
   * one has a `previousId` if that response is gone, or if there are more.
   */
  readChain(id: string, { organisationId, environment }: FileOwner, maxLength: number): Promise<ChainLink[]> {
    return this.#deps.db.$queryRaw`
      WITH RECURSIVE chain AS (
        SELECT id, previous_id, status, conversation_id, session, items_bytes, 1 AS length FROM stored_responses
        WHERE id = ${id} AND organisation_id = ${organisationId} AND environment = ${environment}::environment
          AND expires_at > ${new Date(this.#deps.clock.now())}
        UNION ALL
        SELECT r.id, r.previous_id, r.status, r.conversation_id, r.session, r.items_bytes, chain.length + 1
        FROM chain JOIN stored_responses r ON r.id = chain.previous_id
        WHERE chain.length < ${maxLength} AND r.organisation_id = ${organisationId}
          AND r.environment = ${environment}::environment AND r.expires_at > ${new Date(this.#deps.clock.now())}
      )
      SELECT id, previous_id AS "previousId", status, conversation_id AS "conversationId", session, items_bytes AS "itemsBytes"
      FROM chain ORDER BY length`
  }

  /** An owner's newest responses that have an item of one of these ids: at most `limit` of them. */
  findHolders(
    { organisationId, environment }: FileOwner,
    ids: readonly string[],
    limit: number,
  ): Promise<ItemHolder[]> {
    return this.#deps.db.$queryRaw<ItemHolder[]>`
      SELECT id, session, item_ids AS "itemIds", items_bytes AS "itemsBytes" FROM stored_responses
      WHERE item_ids && ${ids}::text[] AND organisation_id = ${organisationId}
        AND environment = ${environment}::environment AND expires_at > ${new Date(this.#deps.clock.now())}
      ORDER BY created_at DESC, id DESC LIMIT ${limit}`
  }

  /** Deletes an owner's response with its content; false if there is none. */
  async delete(id: string, owner: FileOwner): Promise<boolean> {
    const row = await this.find(id, owner)
    if (!row) return false
    const { count } = await this.#deps.db.storedResponse.deleteMany({ where: { id } })
    await this.#deps.payloads.remove([row.headFileId, row.itemsFileId])
    return count === 1
  }

  /** Deletes expired responses; returns their number. */
  async expire(nowMs: number): Promise<number> {
    let deleted = 0
    for (let page = 0; page < maxPages; page++) {
      const rows = await this.#deps.db.$queryRaw<
        { headFileId: string | null; itemsFileId: string | null }[]
      >(Prisma.sql`
        DELETE FROM stored_responses WHERE id IN (
          SELECT id FROM stored_responses WHERE ${expiredResponses(nowMs)}
          ORDER BY expires_at LIMIT ${pageSize} FOR UPDATE SKIP LOCKED)
        RETURNING head_file_id AS "headFileId", items_file_id AS "itemsFileId"`)
      await this.#deps.payloads.remove(rows.flatMap(({ headFileId, itemsFileId }) => [headFileId, itemsFileId]))
      deleted += rows.length
      if (rows.length < pageSize) break
    }
    return deleted
  }

  /** Encrypts the content of all responses with the current key; returns the number of those that were not. */
  async reseal(): Promise<number> {
    let changed = 0
    for (let after = ''; ; ) {
      const where = { id: { gt: after } }
      const rows = await this.#deps.db.storedResponse.findMany({ where, orderBy: { id: 'asc' }, take: pageSize })
      for (const row of rows) if (await this.#resealRow(row)) changed++
      if (rows.length < pageSize) return changed
      after = rows.at(-1)!.id
    }
  }

  async #resealRow(row: StoredResponse): Promise<boolean> {
    const { id, headFileId, itemsFileId } = row
    const before = { head: { bytes: row.head, fileId: headFileId }, items: { bytes: row.items, fileId: itemsFileId } }
    const expiresAtMs = row.expiresAt.getTime()
    const head = await this.#deps.payloads.reseal(row, before.head, { place: headPlace(id), expiresAtMs })
    const items = await this.#deps.payloads.reseal(row, before.items, { place: itemsPlace(id), expiresAtMs })
    if (!head && !items) return false
    const after = { head: head ?? before.head, items: items ?? before.items }
    const { count } = await this.#deps.db.storedResponse.updateMany({
      where: { id, status: row.status, headFileId, itemsFileId },
      data: {
        head: after.head.bytes,
        headFileId: after.head.fileId,
        items: after.items.bytes,
        itemsFileId: after.items.fileId,
        storedBytes: (after.head.bytes?.length ?? 0) + (after.items.bytes?.length ?? 0),
      },
    })
    // A row that was deleted or has ended meanwhile needs neither: what it ended with is encrypted with the current key.
    const unused = count === 1 ? before : { head, items }
    await this.#deps.payloads.remove([head && (unused.head?.fileId ?? null), items && (unused.items?.fileId ?? null)])
    return count === 1
  }

  #visibleTo({ organisationId, environment }: FileOwner) {
    return { organisationId, environment, expiresAt: { gt: new Date(this.#deps.clock.now()) } }
  }
}

const gone: Payload = { bytes: null, fileId: null }

function headPlace(id: string): string {
  return `stored_responses.head ${id}`
}

function itemsPlace(id: string): string {
  return `stored_responses.items ${id}`
}
