import { GatewayError } from '../../shared/base/errors.ts'
import type { User } from '../../shared/generated/prisma/client.ts'
import { type Actor, operatorActor } from '../../shared/keys/audit.ts'
import type { Services } from '../../shared/services.ts'
import { emails } from './emails.ts'
import { noteChange, removedByOperator } from './second-factor-changes.ts'

/**
 * Makes somebody an operator of the service, or no longer one, in force with their next request. Throws 404, and 403 for
 * somebody whose address is not confirmed: it may be somebody else's.
 */
export async function setOperator(
  { db, log }: Services,
  who: { id: string } | { email: string },
  operator: boolean,
  actor: Actor,
): Promise<User> {
  const user = await db.user.findUnique({ where: 'id' in who ? who : { email: who.email.toLowerCase() } })
  if (!user) throw new GatewayError('not_found', 'There is no such person.')
  if (operator && !user.emailVerified)
    throw new GatewayError('email_not_verified', `${user.email} is not confirmed. Only its owner can be an operator.`)
  const changed = await db.user.update({ where: { id: user.id }, data: { operator } })
  log.info({ person: user.id, operator, by: actor.name }, 'operator role changed')
  return changed
}

/**
 * Takes the authenticator app and the passkeys from somebody who has lost them, and ends their sessions: for whoever the
 * operator knows to be who they say. Throws 404.
 */
export async function resetSecondFactor(services: Services, email: string): Promise<User> {
  const { db, mailer, config } = services
  const user = await db.user.findUnique({ where: { email: email.toLowerCase() } })
  if (!user) throw new GatewayError('not_found', 'There is no such person.')
  const userId = user.id
  const [changed] = await db.$transaction([
    db.user.update({ where: { id: userId }, data: { twoFactorEnabled: false } }),
    db.twoFactor.deleteMany({ where: { userId } }),
    db.passkey.deleteMany({ where: { userId } }),
    db.session.deleteMany({ where: { userId } }),
  ])
  await noteChange(db, emails(mailer, config.publicUrl), user, removedByOperator, operatorActor)
  return changed
}
