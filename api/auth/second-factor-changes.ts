import { type Actor, audit } from '../../shared/io/audit.ts'
import type { Database } from '../../shared/io/db.ts'
import type { emails } from './emails.ts'

const maxOrganisations = 100

export type Mail = Pick<ReturnType<typeof emails>, 'secondFactorChanged'>
type Person = { id: string; email: string }
/** Changes of a second factor: the action for the audit log, and the text for the email. */
export type Change = { action: string; description: string }

export const removedByOperator: Change = {
  action: 'member.two_factor_reset',
  description: 'An operator of the service removed your authenticator app and your passkeys',
}

/**
 * Notifies a person of a change of their second factor, and records it in their organisations' audit logs; what an operator
 * changed for a person without an organisation, in the operators' alone.
 */
export async function recordChange(
  db: Database,
  mail: Mail,
  person: Person,
  { action, description }: Change,
  actor: Actor,
): Promise<void> {
  const memberships = await db.membership.findMany({ where: { userId: person.id }, take: maxOrganisations })
  const organisations: (string | null)[] = memberships.map(({ organisationId }) => organisationId)
  if (organisations.length === 0 && actor.kind === 'operator') organisations.push(null)
  for (const organisationId of organisations)
    await audit(db, { organisationId, actor, action, target: { id: person.id, name: person.email } })
  await mail.secondFactorChanged(person, description)
}
