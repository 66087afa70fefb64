import { GatewayError } from '../../shared/base/errors.ts'
import type { User } from '../../shared/generated/prisma/client.ts'
import { type Actor, operatorActor } from '../../shared/keys/audit.ts'
import type { Services } from '../../shared/services.ts'
import { emails } from './emails.ts'
import { recordChange, removedByOperator } from './second-factor-changes.ts'

/**
 * Grants or revokes the operator role, in force with the person's next request. Throws 404, and 403 if the address is
 * not confirmed: it may belong to another person.
 */
export async function setOperator(
  { db, log }: Services,
  who: { id: string } | { email: string },
  operator: boolean,
  actor: Actor,
): Promise<User> {
  const user = await db.user.findUnique({ where: 'id' in who ? who : { email: who.email.toLowerCase() } })
  if (!user) throw new GatewayError('not_found', 'No such user.')
  if (operator && !user.emailVerified)
    throw new GatewayError(
      'email_not_verified',
      `${user.email} is not confirmed. Operators need a confirmed email address.`,
    )
  const changed = await db.user.update({ where: { id: user.id }, data: { operator } })
  log.info({ person: user.id, operator, by: actor.name }, 'operator role changed')
  return changed
}

/**
 * Removes the authenticator app and passkeys of a person who lost them, and ends their sessions. The operator must have
 * verified the person's identity. Throws 404.
 */
export async function resetSecondFactor(services: Services, email: string): Promise<User> {
  const { db, mailer, config } = services
  const user = await db.user.findUnique({ where: { email: email.toLowerCase() } })
  if (!user) throw new GatewayError('not_found', 'No such user.')
  const userId = user.id
  const [changed] = await db.$transaction([
    db.user.update({ where: { id: userId }, data: { twoFactorEnabled: false } }),
    db.twoFactor.deleteMany({ where: { userId } }),
    db.passkey.deleteMany({ where: { userId } }),
    db.session.deleteMany({ where: { userId } }),
  ])
  await recordChange(db, emails(mailer, config.publicUrl), user, removedByOperator, operatorActor)
  return changed
}
