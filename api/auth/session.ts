import { GatewayError } from '../../shared/base/errors.ts'
import { rejectNul } from '../../shared/base/json.ts'
import { may, type Permission, type Role, rolesWith } from '../../shared/base/roles.ts'
import { organisationSuspended } from '../../shared/keys/policy.ts'
import type { Platform } from '../../shared/platform.ts'
import type { Context } from '../endpoint.ts'
import { clientOf } from './address.ts'
import { isOwnOrigin } from './origin.ts'
import { hasSecondFactor, secondFactorRequiredMessage } from './second-factor-rule.ts'

export type SessionAccess = 'visitor' | 'person' | 'operator' | { permission: Permission }

/**
 * Authenticates a signed-in person: the session comes from a cookie, so requests that change anything must come from
 * our own pages. A route for visitors is called without a session, too. Throws 401 `not_signed_in`, 403, and 404 for an
 * organisation that is not theirs.
 */
export async function authenticateSession(access: SessionAccess, ctx: Context): Promise<void> {
  const { state, req } = ctx
  if (ctx.method !== 'GET') assertOwnOrigin(ctx)
  const auth = await state.auth()
  const cookie = req.headers.cookie ?? ''
  const { person, cookies } = await auth.session(new Headers({ cookie }))
  if (!person && access === 'visitor') return
  if (!person) throw new GatewayError('not_signed_in', 'Sign in first.')
  if (cookies.length > 0) ctx.set('set-cookie', cookies)
  state.person = person
  state.actor = {
    kind: access === 'operator' ? 'operator' : 'user',
    id: person.id,
    name: person.email,
    client: clientOf(req, state.services.config.trustedProxies),
  }
  state.logFields.person = person.id
  if (access === 'operator' && !person.operator)
    throw new GatewayError('insufficient_role', 'This page is restricted to operators of the service.')
  if (typeof access !== 'object') return
  rejectNul(ctx.params)
  const organisationId = String(ctx.params.organisation)
  const where = { organisationId_userId: { organisationId, userId: person.id } }
  const include = { organisation: { select: { requireTwoFactor: true, suspendedAt: true } } }
  const membership = await state.services.db.membership.findUnique({ where, include })
  if (!membership) throw new GatewayError('not_found', 'No such organisation.')
  if (membership.organisation.requireTwoFactor && !(await hasSecondFactor(state.services.db, person)))
    throw new GatewayError('two_factor_required', secondFactorRequiredMessage)
  state.organisationId = organisationId
  state.role = membership.role as Role
  state.logFields.organisation = organisationId
  if (!may(state.role, access.permission))
    throw new GatewayError(
      'insufficient_role',
      `This requires the role ${rolesWith(access.permission).join(' or ')} in the organisation; yours is ${state.role}.`,
    )
  await noteActivity(state.services, membership)
  if (membership.organisation.suspendedAt && ctx.method !== 'GET') throw organisationSuspended()
}

/**
 * Browsers send the page's origin with every request that changes something: it must be one of ours (`isOwnOrigin`).
 * Throws 403 for another or missing origin.
 */
export function assertOwnOrigin({ req, state }: Context): void {
  const { origin = '', host } = req.headers
  if (isOwnOrigin(origin, host, state.services.config.publicUrl)) return
  throw new GatewayError(
    'origin_not_allowed',
    'Dashboard requests must come from its own pages, at the address of PUBLIC_URL.',
  )
}

/** A person's calls within this time are one write. */
const precisionMs = 5 * 60_000

/** Notes that a member uses the dashboard, at most once in five minutes. A failure is only logged: the call itself goes on. */
async function noteActivity(
  { db, clock, log }: Pick<Platform, 'db' | 'clock' | 'log'>,
  { id, lastActiveAt }: { id: string; lastActiveAt: Date | null },
): Promise<void> {
  const nowMs = clock.now()
  const before = new Date(nowMs - precisionMs)
  if (lastActiveAt !== null && lastActiveAt >= before) return
  // Of calls at the same time only the first one writes.
  const isDue = { OR: [{ lastActiveAt: null }, { lastActiveAt: { lt: before } }] }
  await db.membership
    .updateMany({ where: { id, ...isDue }, data: { lastActiveAt: new Date(nowMs) } })
    .catch(err => log.warn({ err, membership: id }, 'the activity of a member was not noted'))
}
