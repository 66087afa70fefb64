import { GatewayError } from '../base/errors.ts'
import type { Clock } from '../base/time.ts'
import { type Actor, audit } from '../io/audit.ts'
import type { Connection, Database } from '../io/db.ts'
import { lockAllKeys } from '../io/organisation-locks.ts'
import type { Policies } from './policies.ts'

type Stores = { db: Database; policies: Policies; clock: Clock }

/** Whether an organisation is suspended, from PostgreSQL: for work that does not run under a key. */
export async function isSuspended({ db }: Pick<Stores, 'db'>, organisationId: string): Promise<boolean> {
  const where = { id: organisationId }
  const row = await db.organisation.findUnique({ where, select: { suspendedAt: true } })
  return row?.suspendedAt != null
}

/**
 * Suspends an organisation, or resumes it (`reason` null): when this returns, no process serves its keys under the former
 * state. Idempotent: a repetition completes an interrupted change. Throws 404, 503.
 */
export async function setSuspension(
  { db, policies, clock }: Stores,
  organisationId: string,
  reason: string | null,
  actor: Actor,
): Promise<void> {
  const keys = await db.apiKey.findMany({ where: { organisationId, revokedAt: null }, select: { hash: true } })
  const commit = async (tx: Connection) => {
    await lockAllKeys(tx, organisationId)
    const before = await tx.organisation.findUnique({ where: { id: organisationId } })
    if (!before) throw new GatewayError('not_found', `There is no organisation ${organisationId}.`)
    const suspendedAt = reason === null ? null : (before.suspendedAt ?? new Date(clock.now()))
    const data = { suspendedAt, suspensionReason: reason }
    await tx.organisation.update({ where: { id: organisationId }, data })
    const action = reason === null ? 'organisation.resumed' : 'organisation.suspended'
    if (before.suspensionReason !== reason)
      await audit(tx, { organisationId, actor, action, changes: { reason: [before.suspensionReason, reason] } })
    return tx.apiKey.updateManyAndReturn({
      where: { organisationId, revokedAt: null },
      data: { version: { increment: 1 } },
      select: { hash: true },
    })
  }
  const hashesOf = (rows: readonly { hash: string }[]) => rows.map(({ hash }) => hash)
  await policies.applyChanges({ organisationId, hashes: hashesOf(keys) }, () => db.$transaction(commit), hashesOf)
}
