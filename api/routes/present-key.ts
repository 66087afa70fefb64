import type { ApiKey } from '../../shared/generated/prisma/client.ts'
import { type CreatedKey, type KeyRecord, keyRecord } from '../../shared/keys/keys.ts'
import { listOverlaps } from '../../shared/keys/replaced-secrets.ts'
import type { Platform } from '../../shared/platform.ts'

/** Presents keys with their spend of this month. */
export async function presentKeys({ wallets, clock, db }: Platform, rows: ApiKey[]): Promise<KeyRecord[]> {
  const nowMs = clock.now()
  const [spent, replaced] = await Promise.all([wallets.monthSpend(rows), listOverlaps(db, rows, nowMs)])
  return rows.map(row => keyRecord(row, spent.get(row.id) ?? 0n, replaced.get(row.hash) ?? null, nowMs))
}

export async function presentKey(services: Platform, row: ApiKey): Promise<KeyRecord> {
  const [record] = await presentKeys(services, [row])
  return record!
}

/** Presents a new or rolled key with its secret. */
export function presentNewKey(
  { clock }: Platform,
  { row, secret, replaced }: CreatedKey,
  spentNano: bigint,
): { data: KeyRecord; key: string } {
  return { data: keyRecord(row, spentNano, replaced, clock.now()), key: secret }
}
