import { GatewayError } from '../../shared/base/errors.ts'
import type { User } from '../../shared/generated/prisma/client.ts'
import { type Actor, audit, operatorActor } from '../../shared/io/audit.ts'
import type { Platform } from '../../shared/platform.ts'

/** The limits of the test key that an unconfirmed account gets: enough to try everything by hand, and little for a script. */
export const firstKeyLimits = { rpm_limit: 20, tpm_limit: 40_000 } as const

/**
 * Takes the limits of unconfirmed accounts from the keys that a person created before the address was confirmed. Limits that
 * were changed since stay.
 */
export async function liftFirstKeyLimits({ db, keys }: Platform, userId: string, actor: Actor): Promise<void> {
  const { rpm_limit: rpmLimit, tpm_limit: tpmLimit } = firstKeyLimits
  const limited = await db.apiKey.findMany({
    where: { createdById: userId, environment: 'test', revokedAt: null, rpmLimit, tpmLimit },
    select: { hash: true, organisationId: true },
  })
  for (const { hash, organisationId } of limited)
    await keys.patch(organisationId, hash, { rpm_limit: null, tpm_limit: null }, actor)
}

/**
 * Confirms the address of a person on behalf of an operator, who knows whose it is: as the link of the email does. Idempotent.
 * Throws 404.
 */
export async function confirmAddress(services: Platform, email: string): Promise<User> {
  const confirmed = await services.db.$transaction(async tx => {
    const user = await tx.user.findUnique({ where: { email: email.toLowerCase() } })
    if (!user) throw new GatewayError('not_found', 'No such user.')
    const { id, email: name } = user
    if (!user.emailVerified)
      await audit(tx, { organisationId: null, actor: operatorActor, action: 'user.verified', target: { id, name } })
    return tx.user.update({ where: { id }, data: { emailVerified: true } })
  })
  await liftFirstKeyLimits(services, confirmed.id, operatorActor)
  return confirmed
}
