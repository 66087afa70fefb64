import type { Clock } from '../base/time.ts'
import type { ApiKey } from '../generated/prisma/client.ts'
import { type Actor, audit, type Changes } from '../io/audit.ts'
import type { Connection, Database } from '../io/db.ts'
import { lockOneKey } from '../io/organisation-locks.ts'
import type { Policies } from './policies.ts'

const actor: Actor = { kind: 'operator', id: null, name: 'cost control' }

type Stores = { db: Database; policies: Policies; clock: Clock }

/**
 * Disables a key because of what its requests cost, effective as a change by a person. `key`: its row at the decision. Returns
 * what `beside` does in the same transaction; null when the key was disabled, rolled, revoked, or enabled after a review since.
 * Throws what Redis and Postgres throw; safe to retry.
 */
export function blockKey<T>(
  { db, policies, clock }: Stores,
  key: ApiKey,
  beside: (tx: Connection, row: ApiKey) => Promise<T>,
): Promise<T | null> {
  const { id, hash, organisationId, excessCountsFrom } = key
  const changes: Changes = { disabled: [false, true], blocked_reason: [null, 'excess'] }
  const where = { id, hash, revokedAt: null, disabled: false, excessCountsFrom }
  const blocked = { disabled: true, blockedReason: 'excess', excessCountsFrom: new Date(clock.now()) }
  return policies.applyChange(key, () =>
    db.$transaction(async tx => {
      await lockOneKey(tx, organisationId)
      const [row] = await tx.apiKey.updateManyAndReturn({ where, data: { ...blocked, version: { increment: 1 } } })
      if (!row) return null
      await audit(tx, { organisationId, actor, action: 'key.updated', target: row, changes })
      return beside(tx, row)
    }),
  )
}

/** What else changes when a person enables or disables a key: from then on it is their decision, and costs count anew. */
export function changeOfState(
  before: Pick<ApiKey, 'disabled'>,
  disabled: boolean | undefined,
  nowMs: number,
): Partial<Pick<ApiKey, 'blockedReason' | 'excessCountsFrom'>> {
  if (disabled === undefined || disabled === before.disabled) return {}
  return disabled ? { blockedReason: null } : { blockedReason: null, excessCountsFrom: new Date(nowMs) }
}
