import { GatewayError } from '../../shared/base/errors.ts'
import type { User } from '../../shared/generated/prisma/client.ts'
import { type Actor, audit } from '../../shared/io/audit.ts'
import type { Platform } from '../../shared/platform.ts'

/**
 * Suspends a person, or resumes them (`reason` null). A suspended person cannot sign in, and their sessions end. Idempotent: a
 * repetition completes an interrupted change. Throws 404.
 */
export async function setPersonSuspension(
  { db, clock }: Platform,
  who: { id: string } | { email: string },
  reason: string | null,
  actor: Actor,
): Promise<User> {
  const where = 'id' in who ? who : { email: who.email.toLowerCase() }
  const changed = await db.$transaction(async tx => {
    const user = await tx.user.findUnique({ where })
    if (!user) throw new GatewayError('not_found', 'No such user.')
    const { id, email: name, suspensionReason: before } = user
    const suspendedAt = reason === null ? null : (user.suspendedAt ?? new Date(clock.now()))
    const updated = await tx.user.update({ where: { id }, data: { suspendedAt, suspensionReason: reason } })
    const action = reason === null ? 'user.resumed' : 'user.suspended'
    if (before !== reason)
      await audit(tx, {
        organisationId: null,
        actor,
        action,
        target: { id, name },
        changes: { reason: [before, reason] },
      })
    return updated
  })
  // After the commit: a sign-in that did not see the suspension has created its session before this (`suspensionHooks`).
  if (reason !== null) await db.session.deleteMany({ where: { userId: changed.id } })
  return changed
}
