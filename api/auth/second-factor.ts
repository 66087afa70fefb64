import type { BetterAuthPlugin } from 'better-auth'
import { APIError, createAuthMiddleware, getSessionFromCtx, isAPIError } from 'better-auth/api'
import { asText } from '../../shared/base/as-text.ts'
import type { Platform } from '../../shared/platform.ts'
import { recordChange } from './account-changes.ts'
import type { AuthRequest } from './auth-request.ts'
import type { HookContext } from './devices.ts'
import type { emails } from './emails.ts'
import { userActor } from './hooks.ts'
import { assertProof, secondFactorChanges } from './proof.ts'
import { hasSecondFactor, secondFactorRequiredMessage } from './second-factor-rule.ts'

const maxPasskeys = 20

type Mail = Pick<ReturnType<typeof emails>, 'secondFactorChanged'>
/** Changes of a second factor: the action for the audit log, and the text for the email. */
type Change = { action: string; description: string }
type Person = { id: string; email: string; emailVerified: boolean; name: string; twoFactorEnabled?: boolean | null }
const turnedOn = {
  action: 'member.two_factor_on',
  description: 'Two-factor sign-in with an authenticator app was turned on',
}
/** What would stay when the owner of an unconfirmed address takes over an account that a stranger made with it. */
const additions: ReadonlySet<string> = new Set(['/two-factor/enable', '/passkey/verify-registration'])
/** Set by the route that creates them. */
const changes: Record<string, Change> = {
  '/two-factor/disable': { action: 'member.two_factor_off', description: 'Two-factor sign-in was turned off' },
  '/two-factor/generate-backup-codes': {
    action: 'member.backup_codes_replaced',
    description: 'New backup codes were created; the old ones no longer work',
  },
  '/passkey/verify-registration': { action: 'member.passkey_added', description: 'A passkey was added' },
  '/passkey/delete-passkey': { action: 'member.passkey_removed', description: 'A passkey was removed' },
}
/**
 * Protects changes of a second factor: they require proof of identity, are confirmed by email and recorded in the audit
 * log of the person's organisations. Members without a second factor cannot see an organisation that requires it.
 */
export function secondFactor(services: Platform, currentRequest: () => AuthRequest, mail: Mail): BetterAuthPlugin {
  return {
    id: 'second-factor',
    hooks: {
      before: [
        {
          matcher: ({ path }) => secondFactorChanges.has(path ?? ''),
          handler: createAuthMiddleware(async ctx => {
            const session = await getSessionFromCtx(ctx)
            if (session) await assertChange(services, ctx, session.user as Person, currentRequest())
          }),
        },
        {
          matcher: ({ path }) => path === '/two-factor/verify-totp',
          handler: createAuthMiddleware(async ctx => {
            const session = await getSessionFromCtx(ctx)
            currentRequest().confirmsApp = session !== null && !(session.user as Person).twoFactorEnabled
          }),
        },
        {
          matcher: ({ path }) => path?.startsWith('/organization/') === true && !open.has(path),
          handler: createAuthMiddleware(async ctx => {
            const session = await getSessionFromCtx(ctx)
            if (session) await assertMeetsRequirement(services, currentRequest().input, session.user as Person)
          }),
        },
      ],
      after: [
        {
          matcher: ({ path }) => path === '/two-factor/verify-totp' || changes[path ?? ''] !== undefined,
          handler: createAuthMiddleware(async ctx => {
            if (isAPIError(ctx.context.returned)) return
            const change =
              ctx.path === '/two-factor/verify-totp' ? currentRequest().confirmsApp && turnedOn : changes[ctx.path]
            const session = change && (await getSessionFromCtx(ctx))
            if (!session) return
            const person = session.user as Person
            const { action, description } = change
            await recordChange(services.db, person, { action }, userActor(person, currentRequest().headers))
            await mail.secondFactorChanged(person, description)
          }),
        },
        {
          matcher: ({ path }) => path === '/two-factor/verify-backup-code',
          handler: createAuthMiddleware(async ctx => {
            const user = ctx.context.newSession?.user
            if (user && !isAPIError(ctx.context.returned))
              await mail.secondFactorChanged(user, 'A backup code was used to sign in; it no longer works')
          }),
        },
      ],
    },
  }
}

async function assertChange({ db }: Platform, ctx: HookContext, person: Person, request: AuthRequest): Promise<void> {
  await assertProof(ctx, db, person).catch(error => {
    request.wrong = isAPIError(error)
    throw error
  })
  if (additions.has(ctx.path) && !person.emailVerified)
    throw new APIError('FORBIDDEN', {
      code: 'EMAIL_NOT_VERIFIED',
      message: 'Confirm your email address first: we sent you a link.',
    })
  // A new secret would replace the one in use before its possession was proven.
  if (ctx.path === '/two-factor/enable' && person.twoFactorEnabled)
    throw refused('TWO_FACTOR_ALREADY_ON', 'Two-factor sign-in is on. Turn it off first to use another app.')
  if (ctx.path === '/passkey/verify-registration') {
    if ((await db.passkey.count({ where: { userId: person.id } })) >= maxPasskeys)
      throw refused('TOO_MANY_PASSKEYS', `An account can have at most ${maxPasskeys} passkeys. Remove one first.`)
  }
  if (ctx.path === '/two-factor/disable') {
    const requires = { userId: person.id, organisation: { requireTwoFactor: true } }
    const membership = await db.membership.findFirst({ where: requires, include: { organisation: true } })
    if (membership)
      throw refused(
        'TWO_FACTOR_REQUIRED',
        `“${membership.organisation.name}” requires two-factor sign-in of its members.`,
      )
  }
}

/** Organisation routes that need no second factor: joining, leaving and creating. */
const open = new Set([
  '/organization/create',
  '/organization/leave',
  '/organization/get-invitation',
  '/organization/accept-invitation',
  '/organization/reject-invitation',
])

async function assertMeetsRequirement({ db }: Platform, input: Record<string, unknown>, person: Person): Promise<void> {
  const { organizationId, invitationId } = input
  const where =
    typeof organizationId === 'string'
      ? { id: organizationId }
      : { invitations: { some: { id: asText(invitationId ?? '') } } }
  const requires = await db.organisation.findFirst({
    where: { ...where, requireTwoFactor: true },
    select: { id: true },
  })
  if (!requires || (await hasSecondFactor(db, person))) return
  throw new APIError('FORBIDDEN', { code: 'TWO_FACTOR_REQUIRED', message: secondFactorRequiredMessage })
}

function refused(code: string, message: string): APIError {
  return new APIError('BAD_REQUEST', { code, message })
}
