import { APIError, createAuthMiddleware, getSessionFromCtx, isAPIError } from 'better-auth/api'
import { newId } from '../../shared/base/ids.ts'
import { type Actor, type AuditEntry, audit, type Changes } from '../../shared/keys/audit.ts'
import { type KeyFate, settleKeysOf } from '../../shared/keys/departures.ts'
import type { Services } from '../../shared/services.ts'
import type { Acting } from './acting.ts'

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

/** Settles the keys of a member who goes as the request says: see `settleKeysOf`. */
async function settleKeys(services: Services, { organizationId, userId }: Member, actor: Actor, request: Acting) {
  const fate = (request.taken.keys as KeyFate | undefined) ?? 'revoke'
  const settled = await settleKeysOf(services, { organisationId: organizationId, userId }, fate, actor)
  request.keys = { fate, settled: (request.keys?.settled ?? 0) + settled }
}

/** What a removal changed, for the audit log. */
function removal({ role }: Member, { keys }: Acting): Changes {
  if (!keys || keys.settled === 0) return { role: [role, null] }
  const field = keys.fate === 'revoke' ? 'keys_revoked' : 'keys_handed_over'
  return { role: [role, null], [field]: [null, keys.settled] }
}

/** Who may invite and join. The invitations of whoever may no longer invite are no way back. */
export function invitationRules(services: Services, actor: () => Promise<Actor>, acting: () => Acting) {
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
    beforeRemoveMember: async ({ member }: { member: Member }) => {
      await withdrawInvitations(services, member)
      // Before they go: what fails here leaves a member with keys, and no keys without a member.
      await settleKeys(services, member, await actor(), acting())
    },
  }
}

/**
 * Notes who invited, joined, was removed, was given which role, and renamed the organisation. `actor` is whoever sent the
 * request at hand.
 */
export function auditHooks(services: Services, actor: () => Promise<Actor>, acting: () => Acting) {
  const { db } = services
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
    afterRemoveMember: async (event: { member: Member; user: Person; organization: Place }) => {
      // A key that was being made when they went.
      await settleKeys(services, event.member, await actor(), acting())
      await note(event.organization, {
        action: 'member.removed',
        target: person(event.user),
        changes: removal(event.member, acting()),
      })
    },
    afterUpdateMemberRole: (event: { member: Member; previousRole: string; user: Person; organization: Place }) =>
      note(event.organization, {
        action: 'member.role_changed',
        target: person(event.user),
        changes: { role: [event.previousRole, event.member.role] },
      }),
  }
}

/** What is to be done before somebody leaves, and can, for which the library has no hook of its own. */
export function beforeLeaving(services: Services, actorOf: () => Promise<Actor>, acting: () => Acting) {
  return createAuthMiddleware(async ctx => {
    if (ctx.path !== '/organization/leave') return
    const session = await getSessionFromCtx(ctx)
    const organisationId = String(acting().taken.organizationId)
    const userId = session?.user.id ?? ''
    const member = await services.db.membership.findUnique({
      where: { organisationId_userId: { organisationId, userId } },
    })
    if (!member) return
    const owners = await services.db.membership.count({ where: { organisationId, role: 'owner' } })
    if (member.role === 'owner' && owners === 1) return // The library refuses it.
    await settleKeys(services, { ...member, organizationId: organisationId }, await actorOf(), acting())
  })
}

/** What is to be done after somebody left. */
export function afterLeaving(services: Services, actorOf: () => Promise<Actor>, acting: () => Acting) {
  return createAuthMiddleware(async ({ path, context }) => {
    if (path !== '/organization/leave' || isAPIError(context.returned)) return
    const member = context.returned as Member
    await withdrawInvitations(services, member)
    const actor = await actorOf()
    await settleKeys(services, member, actor, acting())
    await audit(services.db, {
      organisationId: member.organizationId,
      actor,
      action: 'member.removed',
      target: { id: member.userId, name: actor.name },
      changes: removal(member, acting()),
    })
  })
}
