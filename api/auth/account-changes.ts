import { type Actor, audit, type Changes } from '../../shared/io/audit.ts'
import type { Database } from '../../shared/io/db.ts'

const maxOrganisations = 100

type Person = { id: string; email: string }

/**
 * Records a change of how a person signs in, in their organisations' audit logs; what an operator changed for a person without an
 * organisation, in the operators' alone.
 */
export async function recordChange(
  db: Database,
  { id, email: name }: Person,
  { action, changes }: { action: string; changes?: Changes },
  actor: Actor,
): Promise<void> {
  const memberships = await db.membership.findMany({ where: { userId: id }, take: maxOrganisations })
  const organisations: (string | null)[] = memberships.map(({ organisationId }) => organisationId)
  if (organisations.length === 0 && actor.kind === 'operator') organisations.push(null)
  for (const organisationId of organisations)
    await audit(db, { organisationId, actor, action, target: { id, name }, ...(changes && { changes }) })
}
