import type { FileOwner } from '../files/files.ts'
import type { Connection } from '../io/db.ts'
import type { Payload } from './payloads.ts'

/** An item of a conversation that is ready to be inserted; `itemBytes`: its length as JSON. */
export type PreparedItem = Payload & { id: string; itemBytes: number }

/** Of one statement: other requests run in between. */
const maxRows = 500
const maxBytes = 4 * 1024 * 1024
const empty = Buffer.alloc(0)

/** Inserts items in their order, in groups. */
export async function insertItems(
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

/** Runs a transaction; when it fails, drops what was prepared for it. */
export async function dropOnFailure<T>(prepared: { drop(): Promise<void> }, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    await prepared.drop().catch(() => {}) // The files expire.
    throw error
  }
}
