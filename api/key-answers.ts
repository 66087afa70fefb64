import type { ApiKey } from '../shared/generated/prisma/client.ts'
import { type KeyRecord, keyRecord, type MadeKey } from '../shared/keys/keys.ts'
import type { Services } from '../shared/services.ts'

/** Keys as the API shows them, with what they have spent this month. */
export async function presentKeys({ accounts, clock }: Services, rows: ApiKey[]): Promise<KeyRecord[]> {
  const spent = await accounts.monthSpend(rows.map(({ id }) => id))
  const nowMs = clock.now()
  return rows.map(row => keyRecord(row, spent.get(row.id) ?? 0n, nowMs))
}

export async function presentKey(services: Services, row: ApiKey): Promise<KeyRecord> {
  const [record] = await presentKeys(services, [row])
  return record!
}

/** A key that was just made, with its secret. */
export function presentMade(
  { clock }: Services,
  { row, secret }: MadeKey,
  spentNano: bigint,
): { data: KeyRecord; key: string } {
  return { data: keyRecord(row, spentNano, clock.now()), key: secret }
}
