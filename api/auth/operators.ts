import { GatewayError } from '../../shared/base/errors.ts'
import type { User } from '../../shared/generated/prisma/client.ts'
import { type Actor, audit, operatorActor } from '../../shared/io/audit.ts'
import type { Database } from '../../shared/io/db.ts'
import type { Platform } from '../../shared/platform.ts'
import { recordChange } from './account-changes.ts'
import { oidcProvider } from './accounts.ts'
import { emails } from './emails.ts'

/**
 * Grants or revokes the operator role, in force with the person's next request, and records it in the operators' audit log.
 * Throws 404, and 403 if the address is not confirmed: it may belong to another person.
 */
export async function setOperator(
  { db, log }: Platform,
  who: { id: string } | { email: string },
  operator: boolean,
  actor: Actor,
): Promise<User> {
  const where = 'id' in who ? who : { email: who.email.toLowerCase() }
  const changed = await db.$transaction(async tx => {
    const user = await tx.user.findUnique({ where })
    if (!user) throw new GatewayError('not_found', 'No such user.')
    const { id, email: name, operator: before } = user
    if (operator && !user.emailVerified)
      throw new GatewayError(
        'email_not_verified',
        `${name} is not confirmed. Operators need a confirmed email address.`,
      )
    const action = operator ? 'user.promoted' : 'user.demoted'
    if (before !== operator) await audit(tx, { organisationId: null, actor, action, target: { id, name } })
    return tx.user.update({ where: { id }, data: { operator } })
  })
  log.info({ person: changed.id, operator, by: actor.name }, 'operator role changed')
  return changed
}

/**
 * Removes the authenticator app and passkeys of a person who lost them, and ends their sessions. The operator must have
 * verified the person's identity. Throws 404.
 */
export async function resetSecondFactor(services: Platform, email: string): Promise<User> {
  const { db, mailer, config } = services
  const user = await findPerson(db, email)
  const userId = user.id
  const [changed] = await db.$transaction([
    db.user.update({ where: { id: userId }, data: { twoFactorEnabled: false } }),
    db.twoFactor.deleteMany({ where: { userId } }),
    db.passkey.deleteMany({ where: { userId } }),
    db.session.deleteMany({ where: { userId } }),
  ])
  await recordChange(db, user, { action: 'member.two_factor_reset' }, operatorActor)
  const description = 'An operator of the service removed your authenticator app and your passkeys'
  await emails(mailer, config.publicUrl).secondFactorChanged(user, description)
  return changed
}

/**
 * Takes the identity of single sign-on from a person, and ends their sessions: the next one with their confirmed address takes its
 * place. The operator must know whose it is. Throws 404.
 */
export async function unlinkSingleSignOn({ db }: Platform, email: string): Promise<User> {
  const user = await findPerson(db, email)
  await unlink(db, user)
  return user
}

/** Does so for all people, for a provider that replaces another. Returns how many there were. */
export async function unlinkEverybody({ db }: Platform): Promise<number> {
  const people = await db.user.findMany({
    where: { accounts: { some: { providerId: oidcProvider } } },
    select: { id: true, email: true },
  })
  for (const person of people) await unlink(db, person)
  return people.length
}

async function unlink(db: Database, person: Pick<User, 'id' | 'email'>): Promise<void> {
  await db.$transaction([
    db.account.deleteMany({ where: { userId: person.id, providerId: oidcProvider } }),
    db.session.deleteMany({ where: { userId: person.id } }),
  ])
  await recordChange(db, person, { action: 'member.single_sign_on_unlinked' }, operatorActor)
}

/** Throws 404. */
async function findPerson(db: Database, email: string): Promise<User> {
  const user = await db.user.findUnique({ where: { email: email.toLowerCase() } })
  if (!user) throw new GatewayError('not_found', 'No such user.')
  return user
}
