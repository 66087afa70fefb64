import type { Conversation } from '../generated/prisma/client.ts'
import type { Database } from '../io/db.ts'
import type { Sealer } from '../keys/sealer.ts'

export type Metadata = Record<string, string>
type Columns = Pick<Conversation, 'id' | 'metadata' | 'sealedMetadata'>

const perPage = 100

/** The columns of a conversation's metadata; a process of a release before encryption reads encrypted metadata as empty. */
export function sealMetadata(sealer: Sealer, id: string, metadata: Metadata) {
  if (!sealer.encrypts || isEmpty(metadata)) return { metadata, sealedMetadata: null }
  const bytes = sealer.sealBytes(Buffer.from(JSON.stringify(metadata)), placeOf(id))
  return { metadata: {}, sealedMetadata: new Uint8Array(bytes) }
}

/** A conversation with its metadata. What is in clear was written before encryption, or over it by a process of that release. */
export function withMetadata<T extends Columns>(sealer: Sealer, row: T): T & { metadata: Metadata } {
  const { id, metadata, sealedMetadata } = row
  if (!sealedMetadata || !isEmpty(metadata)) return { ...row, metadata: metadata as Metadata }
  const text = sealer.openBytes(Buffer.from(sealedMetadata), placeOf(id)).toString()
  return { ...row, metadata: JSON.parse(text) as Metadata }
}

/** Encrypts the metadata of all conversations with the current key; returns the number of those that were not. */
export async function resealMetadata(db: Database, sealer: Sealer): Promise<number> {
  let changed = 0
  for (let after = ''; ; ) {
    const rows = await db.conversation.findMany({ where: { id: { gt: after } }, orderBy: { id: 'asc' }, take: perPage })
    for (const row of rows) {
      const { id, metadata, sealedMetadata } = row
      if (isEmpty(metadata) && (!sealedMetadata || sealer.isCurrentBytes(Buffer.from(sealedMetadata)))) continue
      const data = sealMetadata(sealer, id, withMetadata(sealer, row).metadata)
      // One that was changed meanwhile is encrypted already.
      const where = { id, sealedMetadata, metadata: { equals: metadata as Metadata } }
      changed += (await db.conversation.updateMany({ where, data })).count
    }
    if (rows.length < perPage) return changed
    after = rows.at(-1)!.id
  }
}

function isEmpty(metadata: unknown): boolean {
  return Object.keys(metadata as object).length === 0
}

function placeOf(id: string): string {
  return `conversations.metadata ${id}`
}
