import { APIError, createAuthMiddleware, isAPIError } from 'better-auth/api'
import { newId } from '../../shared/base/ids.ts'
import { type Actor, type AuditEntry, audit } from '../../shared/keys/audit.ts'
import type { Services } from '../../shared/services.ts'

type Person = { id: string; email: string }
type Place = { id: string }

const by = ({ id, email }: Person): Actor => ({ kind: 'user', id, name: email })

/** What every organisation has from its beginning. */
export function organisationDefaults({ db }: Services) {
  return {
    beforeCreateOrganization: async ({ organization }: { organization: { name?: string } }) => ({
      data: { name: organization.name, slug: newId('org') },
    }),
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
type Member = { organizationId: string; userId: string; role: string }

/** Withdraws the invitations that somebody made and could not make in a new role; without a role, all. */
async function withdrawInvitations({ db }: Services, { organizationId, userId }: Member, newRole?: string) {
  if (newRole === 'owner') return
  await db.invitation.updateMany({
    where: {
      organisationId: organizationId,
      inviterId: userId,
      status: 'pending',
      ...(newRole === 'admin' && { role: 'owner' }),
    },
    data: { status: 'canceled' },
  })
}

/** Who may invite and join. The invitations of whoever may no longer invite are no way back. */
export function invitationRules(services: Services) {
  return {
    // An invitation carries names of the inviter's choice to a stranger.
    beforeCreateInvitation: async ({ inviter }: { inviter: { emailVerified: boolean } }) => {
      if (inviter.emailVerified) return
      throw new APIError('FORBIDDEN', {
        code: 'EMAIL_NOT_VERIFIED',
        message: 'Confirm your email address first: we sent you a link.',
      })
    },
    beforeAcceptInvitation: async ({ user, organization }: { user: Person; organization: Place }) => {
      const where = { organisationId_userId: { organisationId: organization.id, userId: user.id } }
      if (!(await services.db.membership.findUnique({ where }))) return
      throw new APIError('BAD_REQUEST', { code: 'ALREADY_A_MEMBER', message: 'You are a member already.' })
    },
    beforeUpdateMemberRole: ({ member, newRole }: { member: Member; newRole: string }) =>
      withdrawInvitations(services, member, newRole),
    beforeRemoveMember: ({ member }: { member: Member }) => withdrawInvitations(services, member),
  }
}

/** What a request is known by while the library handles it. */
export type Acting = { headers: Headers; formerName?: string }

/**
 * Notes who invited, joined, was removed, was given which role, and renamed the organisation. `actor` is whoever sent the
 * request at hand.
 */
export function auditHooks({ db }: Services, actor: () => Promise<Actor>, acting: () => Acting) {
  const note = async (organisation: Place, entry: Pick<AuditEntry, 'action' | 'target' | 'changes'>) =>
    audit(db, { organisationId: organisation.id, actor: await actor(), ...entry })
  const invitee = ({ id, email }: Invitation) => ({ id, name: email })
  const person = ({ id, email }: Person) => ({ id, name: email })
  return {
    beforeUpdateOrganization: async ({ member }: { member: Member }) => {
      const { name } = await db.organisation.findUniqueOrThrow({ where: { id: member.organizationId } })
      acting().formerName = name
    },
    afterUpdateOrganization: async ({ organization }: { organization: (Place & { name: string }) | null }) => {
      const { formerName } = acting()
      if (!organization || organization.name === formerName) return
      await note(organization, {
        action: 'organisation.changed',
        changes: { name: [formerName, organization.name] },
      })
    },
    afterCreateInvitation: (event: { invitation: Invitation; organization: Place }) =>
      note(event.organization, {
        action: 'member.invited',
        target: invitee(event.invitation),
        changes: { role: [null, event.invitation.role] },
      }),
    afterCancelInvitation: (event: { invitation: Invitation; organization: Place }) =>
      note(event.organization, { action: 'invitation.cancelled', target: invitee(event.invitation) }),
    afterRejectInvitation: (event: { user: Person; organization: Place }) =>
      note(event.organization, { action: 'invitation.declined', target: person(event.user) }),
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

/** What is to be done after somebody left, for which the library has no hook of its own. */
export function afterLeaving(services: Services, actorOf: () => Promise<Actor>) {
  return createAuthMiddleware(async ({ path, context }) => {
    if (path !== '/organization/leave' || isAPIError(context.returned)) return
    const member = context.returned as Member
    await withdrawInvitations(services, member)
    const actor = await actorOf()
    await audit(services.db, {
      organisationId: member.organizationId,
      actor,
      action: 'member.removed',
      target: { id: member.userId, name: actor.name },
      changes: { role: [member.role, null] },
    })
  })
}
