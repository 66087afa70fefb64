import { GatewayError } from '../base/errors.ts'
import type { Database } from '../io/db.ts'
import { type Actor, audit } from './audit.ts'
import type { Keys } from './keys.ts'

/** What becomes of the keys that somebody made who is no longer a member: nobody else knows where their secrets are. */
export const keyFates = ['revoke', 'hand_over'] as const
export type KeyFate = (typeof keyFates)[number]

const perRound = 20
/** A member has no time to make more keys than this while they are removed. */
const maxRounds = 1_000

/**
 * Revokes the keys that somebody made in an organisation, in force at once on every process, or hands them over: then they are
 * nobody's, and its admins manage them. Answers how many. Throws what Redis and Postgres throw; doing it again goes on.
 */
export async function settleKeysOf(
  { db, keys }: { db: Database; keys: Keys },
  { organisationId, userId }: { organisationId: string; userId: string },
  fate: KeyFate,
  actor: Actor,
): Promise<number> {
  if (fate === 'hand_over') return handOver(db, { organisationId, userId }, actor)
  let revoked = 0
  for (let round = 0; round < maxRounds; round++) {
    const where = { organisationId, createdById: userId, revokedAt: null }
    const rows = await db.apiKey.findMany({ where, select: { hash: true }, take: perRound })
    if (rows.length === 0) break
    const done = await Promise.all(rows.map(({ hash }) => revokeUnlessRolled(keys, organisationId, hash, actor)))
    revoked += done.filter(Boolean).length
  }
  return revoked
}

/** False for a key whose secret was rolled in that moment: the next round finds it under its new hash. */
async function revokeUnlessRolled(keys: Keys, organisationId: string, hash: string, actor: Actor): Promise<boolean> {
  try {
    await keys.revoke(organisationId, hash, actor)
    return true
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'not_found') return false
    throw error
  }
}

function handOver(db: Database, of: { organisationId: string; userId: string }, actor: Actor): Promise<number> {
  const { organisationId, userId } = of
  return db.$transaction(async tx => {
    const where = { organisationId, createdById: userId, revokedAt: null }
    const handed = await tx.apiKey.updateManyAndReturn({ where, data: { createdById: null } })
    for (const target of handed) await audit(tx, { organisationId, actor, action: 'key.handed_over', target })
    return handed.length
  })
}
