import { nanoFromUsd } from '../../../shared/base/money.ts'
import type { ApiKey } from '../../../shared/generated/prisma/client.ts'
import type { KeyRecord } from '../../../shared/keys/keys.ts'
import type { Platform } from '../../../shared/platform.ts'

/** Older refusals say nothing about the next request. */
const recentMs = 3_600_000

/**
 * When the cap of a key last refused a request, within the last hour and since the key was last changed. Only of keys below their cap that
 * have spent half of it: otherwise the request was too large for the cap, as alerts see it, too.
 */
export async function listCapRefusals(
  { db, clock }: Pick<Platform, 'db' | 'clock'>,
  keys: readonly { row: ApiKey; record: KeyRecord }[],
): Promise<Map<string, Date>> {
  const near = keys.filter(({ row, record }) => isNear(row.monthlySpendCapNano, record)).map(({ row }) => row)
  if (near.length === 0) return new Map()
  const organisations = [...new Set(near.map(({ organisationId }) => organisationId))]
  // By the index of errors, which has next to nothing of an hour.
  const refusals = await db.generation.groupBy({
    by: ['keyId'],
    where: {
      organisationId: { in: organisations },
      createdAt: { gte: new Date(clock.now() - recentMs) },
      status: 402,
      errorCode: 'monthly_spend_cap_reached',
      keyId: { in: near.map(({ id }) => id) },
    },
    _max: { createdAt: true },
  })
  const latest = new Map(refusals.map(({ keyId, _max }) => [keyId, _max.createdAt!]))
  return new Map(
    near.flatMap(({ id, updatedAt }) => {
      const refusedAt = latest.get(id)
      return refusedAt && refusedAt > updatedAt ? [[id, refusedAt] as const] : []
    }),
  )
}

function isNear(capNano: bigint | null, { spend_month_usd, status }: KeyRecord): boolean {
  if (capNano === null || status !== 'active') return false
  const spentNano = nanoFromUsd(spend_month_usd)
  return spentNano < capNano && spentNano * 2n >= capNano
}
