import type { Connection } from '../io/db.ts'

/**
 * Every transaction that locks keys locks their organisations first: else one that holds a key and then refers to its organisation
 * (the foreign keys of audit events and ledger entries) can deadlock with a change of all keys of that organisation.
 */

/** For a change of all keys of an organisation, or of several: waits for other changes and for charges, and excludes new keys. */
export async function lockAllKeys(tx: Connection, organisationId: string): Promise<void> {
  await tx.$executeRaw`SELECT 1 FROM organisations WHERE id = ${organisationId} FOR UPDATE`
}

/** For a change of one key: excludes `lockAllKeys` alone. */
export async function lockOneKey(tx: Connection, organisationId: string): Promise<void> {
  await tx.$executeRaw`SELECT 1 FROM organisations WHERE id = ${organisationId} FOR KEY SHARE`
}
