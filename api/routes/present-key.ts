import type { ApiKey } from '../../shared/generated/prisma/client.ts'
import { type CreatedKey, type KeyRecord, keyRecord } from '../../shared/keys/keys.ts'
import type { Services } from '../../shared/services.ts'

/** Presents keys with their spend of this month. */
export async function presentKeys({ accounts, clock }: Services, rows: ApiKey[]): Promise<KeyRecord[]> {
  const spent = await accounts.monthSpend(rows)
  const nowMs = clock.now()
  return rows.map(row => keyRecord(row, spent.get(row.id) ?? 0n, nowMs))
}

export async function presentKey(services: Services, row: ApiKey): Promise<KeyRecord> {
  const [record] = await presentKeys(services, [row])
  return record!
}

/** Presents a new key with its secret. */
export function presentNewKey(
  { clock }: Services,
  { row, secret }: CreatedKey,
  spentNano: bigint,
): { data: KeyRecord; key: string } {
  return { data: keyRecord(row, spentNano, clock.now()), key: secret }
}
