import type { Connection } from './db.ts'

/**
 * Locks on the row of an organisation, until the transaction ends. Every transaction that locks keys locks their organisations first: else
 * one that holds a key and then refers to its organisation (the foreign keys of audit events and ledger entries) can deadlock with a
 * change of all keys of that organisation.
 */

/**
 * For a change of all keys of an organisation, or of several: waits for other changes and for charges, and excludes new keys. Returns
 * whether there is such an organisation.
 */
export async function lockAllKeys(tx: Connection, organisationId: string): Promise<boolean> {
  const found = await tx.$queryRaw<unknown[]>`SELECT 1 FROM organisations WHERE id = ${organisationId} FOR UPDATE`
  return found.length > 0
}

/** For a change of one key: excludes `lockAllKeys` alone. */
export async function lockOneKey(tx: Connection, organisationId: string): Promise<void> {
  await tx.$executeRaw`SELECT 1 FROM organisations WHERE id = ${organisationId} FOR KEY SHARE`
}

/** For a change of what an organisation has a limited number of: excludes other such changes, but no charges. */
export async function lockOrganisation(tx: Connection, organisationId: string): Promise<void> {
  await tx.$executeRaw`SELECT 1 FROM organisations WHERE id = ${organisationId} FOR NO KEY UPDATE`
}
