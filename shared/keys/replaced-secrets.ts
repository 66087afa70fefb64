import { hourMs } from '../base/time.ts'
import type { ApiKey, RetiredSecret } from '../generated/prisma/client.ts'
import type { Connection, Database } from '../io/db.ts'
import { policyRow } from './policy.ts'

/** The longest time for which a roll may keep the old secret working. */
export const maxOverlapHours = 72

/** A secret that works beside the one that replaced it. */
export type OverlappingSecret = { last4: string; validUntil: Date }

/**
 * Records in a roll's transaction that `old` has the secret of `replacedBy` (a hash) now. Returns until when the old secret keeps
 * working; null without an overlap.
 */
export async function retireSecret(
  tx: Connection,
  old: Pick<ApiKey, 'id' | 'hash' | 'last4'>,
  replacedBy: string,
  { overlapHours, nowMs }: { overlapHours: number; nowMs: number },
): Promise<Date | null> {
  const validUntil = overlapHours > 0 ? new Date(nowMs + overlapHours * hourMs) : null
  const overlap = validUntil && { last4: old.last4, replacedBy, validUntil }
  await tx.retiredSecret.create({ data: { hash: old.hash, keyId: old.id, ...overlap } })
  return validUntil
}

/** A secret that was replaced, with its key; null for an unknown one. */
export function findReplacedSecret(db: Database, hash: string) {
  return db.retiredSecret.findUnique({ where: { hash }, include: { key: policyRow } })
}

/** Until when a replaced secret works. Null = it does not: the roll ended it at once, or its successor was rolled as well. */
export function overlapEnd({ replacedBy, validUntil }: RetiredSecret, { hash }: Pick<ApiKey, 'hash'>): Date | null {
  return replacedBy === hash ? validUntil : null
}

/** The replaced secrets of keys that still work, by the key's hash. */
export async function listOverlaps(
  db: Database,
  rows: readonly Pick<ApiKey, 'hash'>[],
  nowMs: number,
): Promise<Map<string, OverlappingSecret>> {
  const where = { replacedBy: { in: rows.map(({ hash }) => hash) }, validUntil: { gt: new Date(nowMs) } }
  const found = await db.retiredSecret.findMany({ where })
  return new Map(found.map(row => [row.replacedBy!, { last4: row.last4!, validUntil: row.validUntil! }]))
}
