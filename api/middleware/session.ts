import { GatewayError } from '../../shared/base/errors.ts'
import { refuseNul } from '../../shared/base/json.ts'
import { isOwnOrigin } from '../auth/origin.ts'
import { hasRole, type Role } from '../auth/roles.ts'
import { hasSecondFactor, secondFactorWanted } from '../auth/second-factor-rule.ts'
import type { Context } from '../endpoint.ts'

export type SessionAccess = 'person' | 'operator' | { role: Role }

/**
 * Lets a signed-in person in: their session comes with a cookie, so what changes anything must come from a page of ours.
 * Throws 401 `not_signed_in`, 403, and 404 for an organisation that is not theirs.
 */
export async function enterSession(access: SessionAccess, ctx: Context): Promise<void> {
  const { state, req } = ctx
  if (ctx.method !== 'GET') assertOwnOrigin(ctx)
  const auth = await state.auth()
  const cookie = req.headers.cookie ?? ''
  const { person, cookies } = await auth.session(new Headers({ cookie }))
  if (!person) throw new GatewayError('not_signed_in', 'Sign in first.')
  if (cookies.length > 0) ctx.set('set-cookie', cookies)
  state.person = person
  state.actor = { kind: 'user', id: person.id, name: person.email }
  state.wide.person = person.id
  if (access === 'operator' && !person.operator)
    throw new GatewayError('insufficient_role', 'This page is for operators of the service.')
  if (typeof access !== 'object') return
  refuseNul(ctx.params)
  const organisationId = String(ctx.params.organisation)
  const where = { organisationId_userId: { organisationId, userId: person.id } }
  const include = { organisation: { select: { requireTwoFactor: true } } }
  const membership = await state.services.db.membership.findUnique({ where, include })
  if (!membership) throw new GatewayError('not_found', 'There is no such organisation.')
  if (membership.organisation.requireTwoFactor && !(await hasSecondFactor(state.services.db, person)))
    throw new GatewayError('two_factor_required', secondFactorWanted)
  state.organisationId = organisationId
  state.role = membership.role as Role
  state.wide.organisation = organisationId
  if (!hasRole(state.role, access.role))
    throw new GatewayError(
      'insufficient_role',
      `This needs the role ${access.role} in the organisation, yours is ${state.role}.`,
    )
}

/**
 * Browsers name the page's origin on every request that changes something: it must be one of ours (`isOwnOrigin`). Throws 403
 * for another site's page, or none.
 */
export function assertOwnOrigin({ req, state }: Context): void {
  const { origin = '', host } = req.headers
  if (isOwnOrigin(origin, host, state.services.config.publicUrl)) return
  throw new GatewayError(
    'origin_not_allowed',
    'Requests of the dashboard come from its own pages, at the address that PUBLIC_URL names.',
  )
}
