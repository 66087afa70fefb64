import { APIError, createAuthMiddleware, getSessionFromCtx, isAPIError } from 'better-auth/api'
import { asText } from '../../shared/base/as-text.ts'
import { newId } from '../../shared/base/ids.ts'
import { type Role, rolesGivenBy } from '../../shared/base/roles.ts'
import { type Actor, type AuditEntry, audit, type Changes } from '../../shared/io/audit.ts'
import { removeBudget } from '../../shared/keys/budgets.ts'
import { type RemovedMemberKeyAction, settleMemberKeys } from '../../shared/keys/removed-member-keys.ts'
import type { Platform } from '../../shared/platform.ts'
import { clientOfHeaders } from './address.ts'
import type { AuthRequest } from './auth-request.ts'

type Person = { id: string; email: string }
type Place = { id: string }

/** The person who sent a request for the accounts library. */
export function userActor({ id, email }: Person, headers: Headers): Actor {
  return { kind: 'user', id, name: email, client: clientOfHeaders(headers) }
}

/** The fields every new organisation starts with. */
export function organisationDefaults({ db }: Platform, currentRequest: () => AuthRequest) {
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
      const actor = userActor(user, currentRequest().headers)
      await audit(db, { organisationId: organization.id, actor, action: 'organisation.created' })
    },
  }
}

type Invitation = { id: string; email: string; role: string }
type Member = { organizationId: string; userId: string; role: string }
type NewInvitation = {
  inviter: { id: string; emailVerified: boolean }
  invitation: { role: string }
  organization: Place
}

/** Withdraws the member's invitations that the new role may not give; without a role, all of them. */
async function withdrawInvitations({ db }: Platform, { organizationId, userId }: Member, newRole: Role | null = null) {
  const role = { notIn: rolesGivenBy(newRole) }
  await db.invitation.updateMany({
    where: { organisationId: organizationId, inviterId: userId, status: 'pending', role },
    data: { status: 'canceled' },
  })
}

/** Refuses a role with permissions that its giver lacks; the library checks this for owners only. Throws 403. */
async function assertMayGive({ db }: Platform, organisationId: string, userId: string, role: string) {
  const where = { organisationId_userId: { organisationId, userId } }
  const giver = await db.membership.findUnique({ where, select: { role: true } })
  const given: string[] = rolesGivenBy((giver?.role ?? null) as Role | null)
  if (given.includes(role)) return
  throw new APIError('FORBIDDEN', {
    code: 'ROLE_BEYOND_YOUR_OWN',
    message: `Your role cannot give the role ${role}: it includes permissions that you do not have.`,
  })
}

/** Settles the keys of a departing member as the request says: see `settleMemberKeys`. */
async function settleKeys(services: Platform, { organizationId, userId }: Member, actor: Actor, request: AuthRequest) {
  const action = (request.input.keys as RemovedMemberKeyAction | undefined) ?? 'revoke'
  const settled = await settleMemberKeys(services, { organisationId: organizationId, userId }, action, actor)
  await removeBudget(services, organizationId, userId, actor)
  request.keys = { action, settled: (request.keys?.settled ?? 0) + settled }
}

/** The changes made by a removal, for the audit log. */
function removalChanges({ role }: Member, { keys }: AuthRequest): Changes {
  if (!keys || keys.settled === 0) return { role: [role, null] }
  const field = keys.action === 'revoke' ? 'keys_revoked' : 'keys_handed_over'
  return { role: [role, null], [field]: [null, keys.settled] }
}

/**
 * Rules for inviting and joining. Invitations of a member who may no longer invite are withdrawn, so that they cannot
 * be used to return.
 */
export function invitationRules(services: Platform, actor: () => Promise<Actor>, currentRequest: () => AuthRequest) {
  return {
    // An invitation carries text chosen by the inviter to a stranger.
    beforeCreateInvitation: async ({ inviter, invitation, organization }: NewInvitation) => {
      if (inviter.emailVerified) return assertMayGive(services, organization.id, inviter.id, invitation.role)
      throw new APIError('FORBIDDEN', {
        code: 'EMAIL_NOT_VERIFIED',
        message: 'Confirm your email address first: we sent you a link.',
      })
    },
    beforeAcceptInvitation: async ({ user, organization }: { user: Person; organization: Place }) => {
      const where = { organisationId_userId: { organisationId: organization.id, userId: user.id } }
      if (!(await services.db.membership.findUnique({ where }))) return
      throw new APIError('BAD_REQUEST', { code: 'ALREADY_A_MEMBER', message: 'You are already a member.' })
    },
    beforeUpdateMemberRole: async ({ member, newRole }: { member: Member; newRole: string }) => {
      const { id } = await actor()
      await assertMayGive(services, member.organizationId, id ?? '', newRole)
      await withdrawInvitations(services, member, newRole as Role)
    },
    beforeRemoveMember: async ({ member }: { member: Member }) => {
      await withdrawInvitations(services, member)
      // Runs before the member leaves: a failure here leaves a member with keys rather than keys without a member.
      await settleKeys(services, member, await actor(), currentRequest())
    },
  }
}

/**
 * Audits invitations, joins, removals, role changes and renames. `actor` is the person who sent the request being
 * handled.
 */
export function auditHooks(services: Platform, actor: () => Promise<Actor>, currentRequest: () => AuthRequest) {
  const { db } = services
  const record = async (organisation: Place, entry: Pick<AuditEntry, 'action' | 'target' | 'changes'>) =>
    audit(db, { organisationId: organisation.id, actor: await actor(), ...entry })
  const invitee = ({ id, email }: Invitation) => ({ id, name: email })
  const person = ({ id, email }: Person) => ({ id, name: email })
  return {
    beforeUpdateOrganization: async ({ member }: { member: Member }) => {
      const { name, suspendedAt } = await db.organisation.findUniqueOrThrow({ where: { id: member.organizationId } })
      if (suspendedAt !== null)
        throw new APIError('FORBIDDEN', {
          code: 'ORGANISATION_SUSPENDED',
          message: 'This organisation is suspended. Contact the operator of this service.',
        })
      currentRequest().formerName = name
    },
    afterUpdateOrganization: async ({ organization }: { organization: (Place & { name: string }) | null }) => {
      const { formerName } = currentRequest()
      if (!organization || organization.name === formerName) return
      await record(organization, {
        action: 'organisation.changed',
        changes: { name: [formerName, organization.name] },
      })
    },
    afterCreateInvitation: (event: { invitation: Invitation; organization: Place }) =>
      record(event.organization, {
        action: 'member.invited',
        target: invitee(event.invitation),
        changes: { role: [null, event.invitation.role] },
      }),
    afterCancelInvitation: (event: { invitation: Invitation; organization: Place }) =>
      record(event.organization, { action: 'invitation.cancelled', target: invitee(event.invitation) }),
    afterRejectInvitation: (event: { user: Person; organization: Place }) =>
      record(event.organization, { action: 'invitation.declined', target: person(event.user) }),
    afterAcceptInvitation: (event: { invitation: Invitation; user: Person; organization: Place }) =>
      record(event.organization, {
        action: 'member.joined',
        target: person(event.user),
        changes: { role: [null, event.invitation.role] },
      }),
    afterRemoveMember: async (event: { member: Member; user: Person; organization: Place }) => {
      // Settles keys created while the member was leaving.
      await settleKeys(services, event.member, await actor(), currentRequest())
      await record(event.organization, {
        action: 'member.removed',
        target: person(event.user),
        changes: removalChanges(event.member, currentRequest()),
      })
    },
    afterUpdateMemberRole: (event: { member: Member; previousRole: string; user: Person; organization: Place }) =>
      record(event.organization, {
        action: 'member.role_changed',
        target: person(event.user),
        changes: { role: [event.previousRole, event.member.role] },
      }),
  }
}

/** Work to do before a member leaves, once it is certain that they can; the library has no hook for it. */
export function beforeLeaving(services: Platform, actorOf: () => Promise<Actor>, currentRequest: () => AuthRequest) {
  return createAuthMiddleware(async ctx => {
    if (ctx.path !== '/organization/leave') return
    const session = await getSessionFromCtx(ctx)
    const organisationId = asText(currentRequest().input.organizationId)
    const userId = session?.user.id ?? ''
    const member = await services.db.membership.findUnique({
      where: { organisationId_userId: { organisationId, userId } },
    })
    if (!member) return
    const owners = await services.db.membership.count({ where: { organisationId, role: 'owner' } })
    if (member.role === 'owner' && owners === 1)
      throw new APIError('BAD_REQUEST', {
        code: 'YOU_CANNOT_LEAVE_THE_ORGANIZATION_AS_THE_ONLY_OWNER',
        message: 'You are the only owner of this organisation. Make another member an owner first.',
      })
    await settleKeys(services, { ...member, organizationId: organisationId }, await actorOf(), currentRequest())
  })
}

/** Work to do after a member left. */
export function afterLeaving(services: Platform, actorOf: () => Promise<Actor>, currentRequest: () => AuthRequest) {
  return createAuthMiddleware(async ({ path, context }) => {
    if (path !== '/organization/leave' || isAPIError(context.returned)) return
    const member = context.returned as Member
    await withdrawInvitations(services, member)
    const actor = await actorOf()
    await settleKeys(services, member, actor, currentRequest())
    await audit(services.db, {
      organisationId: member.organizationId,
      actor,
      action: 'member.removed',
      target: { id: member.userId, name: actor.name },
      changes: removalChanges(member, currentRequest()),
    })
  })
}
