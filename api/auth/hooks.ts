import { APIError } from 'better-auth/api'
import { newId } from '../../shared/base/ids.ts'
import { type Actor, type AuditEntry, audit } from '../../shared/keys/audit.ts'
import type { Services } from '../../shared/services.ts'

type Person = { id: string; email: string }
type Place = { id: string }

const by = ({ id, email }: Person): Actor => ({ kind: 'user', id, name: email })

/** The library takes lists of roles; a member has one. Throws 400. */
function assertOneRole(role: string): void {
  if (role === 'member' || role === 'admin' || role === 'owner') return
  throw new APIError('BAD_REQUEST', { code: 'INVALID_ROLE', message: 'The role must be member, admin or owner.' })
}

/** What every organisation has from its beginning, and what its members may be. */
export function organisationDefaults({ db }: Services) {
  return {
    beforeCreateOrganization: async ({ organization }: { organization: { name?: string } }) => ({
      data: { name: organization.name, slug: newId('org') },
    }),
    beforeCreateInvitation: async ({ invitation }: { invitation: { role: string } }) => assertOneRole(invitation.role),
    beforeUpdateMemberRole: async ({ newRole }: { newRole: string }) => assertOneRole(newRole),
    afterCreateOrganization: async ({ organization, user }: { organization: Place; user: Person }) => {
      await db.wallet.upsert({
        where: { organisationId: organization.id },
        create: { organisationId: organization.id },
        update: {},
      })
      await audit(db, { organisationId: organization.id, actor: by(user), action: 'organisation.created' })
    },
  }
}

type Invitation = { id: string; email: string; role: string }
type Member = { userId: string; role: string }

/** Notes who invited, joined, left and was given which role. `actor` is whoever sent the request at hand. */
export function auditHooks({ db }: Services, actor: () => Promise<Actor>) {
  const note = async (organisation: Place, entry: Pick<AuditEntry, 'action' | 'target' | 'changes'>) =>
    audit(db, { organisationId: organisation.id, actor: await actor(), ...entry })
  const invitee = ({ id, email }: Invitation) => ({ id, name: email })
  const person = ({ id, email }: Person) => ({ id, name: email })
  return {
    afterCreateInvitation: (event: { invitation: Invitation; organization: Place }) =>
      note(event.organization, {
        action: 'member.invited',
        target: invitee(event.invitation),
        changes: { role: [null, event.invitation.role] },
      }),
    afterCancelInvitation: (event: { invitation: Invitation; organization: Place }) =>
      note(event.organization, { action: 'invitation.cancelled', target: invitee(event.invitation) }),
    afterAcceptInvitation: (event: { invitation: Invitation; user: Person; organization: Place }) =>
      note(event.organization, {
        action: 'member.joined',
        target: person(event.user),
        changes: { role: [null, event.invitation.role] },
      }),
    afterRemoveMember: (event: { member: Member; user: Person; organization: Place }) =>
      note(event.organization, {
        action: 'member.removed',
        target: person(event.user),
        changes: { role: [event.member.role, null] },
      }),
    afterUpdateMemberRole: (event: { member: Member; previousRole: string; user: Person; organization: Place }) =>
      note(event.organization, {
        action: 'member.role_changed',
        target: person(event.user),
        changes: { role: [event.previousRole, event.member.role] },
      }),
  }
}
