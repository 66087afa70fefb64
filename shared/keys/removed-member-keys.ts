import { GatewayError } from '../base/errors.ts'
import { type Actor, audit } from '../io/audit.ts'
import type { Connection, Database } from '../io/db.ts'
import { lockAllKeys } from '../io/organisation-locks.ts'
import type { Keys } from './keys.ts'
import type { Policies } from './policies.ts'

/** What happens to the keys of a removed member: only that member knows where their secrets are in use. */
export const removedMemberKeyActions = ['revoke', 'hand_over'] as const
export type RemovedMemberKeyAction = (typeof removedMemberKeyActions)[number]

type Stores = { db: Database; keys: Keys; policies: Policies }

const keysPerRound = 20
/** Bounds the loop: a member cannot create this many keys during the removal. */
const maxRounds = 1_000

/**
 * Revokes the keys that a member created in an organisation, effective at once on every process, or hands them over: then they
 * have no creator, and the organisation's admins manage them. Returns how many. Throws what Redis and Postgres throw; safe to
 * retry.
 */
export async function settleMemberKeys(
  { db, keys, policies }: Stores,
  { organisationId, userId }: { organisationId: string; userId: string },
  action: RemovedMemberKeyAction,
  actor: Actor,
): Promise<number> {
  if (action === 'hand_over') return handOver({ db, policies }, { organisationId, userId }, actor)
  let revoked = 0
  for (let round = 0; round < maxRounds; round++) {
    const where = { organisationId, createdById: userId, revokedAt: null }
    const rows = await db.apiKey.findMany({ where, select: { hash: true }, take: keysPerRound })
    if (rows.length === 0) break
    const outcomes = await Promise.all(rows.map(({ hash }) => revokeUnlessRolled(keys, organisationId, hash, actor)))
    revoked += outcomes.filter(Boolean).length
  }
  return revoked
}

/** Returns false for a key that was rolled concurrently: the next round finds it under its new hash. */
async function revokeUnlessRolled(keys: Keys, organisationId: string, hash: string, actor: Actor): Promise<boolean> {
  try {
    await keys.revoke(organisationId, hash, actor)
    return true
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'not_found') return false
    throw error
  }
}

/** Their policies change as well: a key without a creator is in no member's budget. */
async function handOver(
  { db, policies }: Pick<Stores, 'db' | 'policies'>,
  { organisationId, userId }: { organisationId: string; userId: string },
  actor: Actor,
): Promise<number> {
  const where = { organisationId, createdById: userId, revokedAt: null }
  const known = await db.apiKey.findMany({ where, select: { hash: true } })
  const commit = async (tx: Connection) => {
    await lockAllKeys(tx, organisationId)
    const data = { createdById: null, version: { increment: 1 } }
    const keys = await tx.apiKey.updateManyAndReturn({ where, data })
    for (const target of keys) await audit(tx, { organisationId, actor, action: 'key.handed_over', target })
    return keys
  }
  const hashesOf = (rows: readonly { hash: string }[]) => rows.map(({ hash }) => hash)
  const change = { organisationId, hashes: hashesOf(known) }
  return (await policies.applyChanges(change, () => db.$transaction(commit), hashesOf)).length
}
