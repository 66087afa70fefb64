import type { Database } from '../../shared/io/db.ts'
import { type Actor, audit } from '../../shared/keys/audit.ts'
import type { emails } from './emails.ts'

const maxOrganisations = 100

export type Mail = Pick<ReturnType<typeof emails>, 'secondFactorChanged'>
type Person = { id: string; email: string }
/** What became of somebody's second factor: as the audit log has it, and as the email says it. */
export type Change = { action: string; told: string }

export const removedByOperator: Change = {
  action: 'member.two_factor_reset',
  told: 'An operator of the service has removed your authenticator app and your passkeys',
}

/** Tells a person, and their organisations' audit logs, what became of their second factor. */
export async function noteChange(
  db: Database,
  mail: Mail,
  person: Person,
  { action, told }: Change,
  actor: Actor = { kind: 'user', id: person.id, name: person.email },
): Promise<void> {
  const memberships = await db.membership.findMany({ where: { userId: person.id }, take: maxOrganisations })
  for (const { organisationId } of memberships)
    await audit(db, { organisationId, actor, action, target: { id: person.id, name: person.email } })
  await mail.secondFactorChanged(person, told)
}
