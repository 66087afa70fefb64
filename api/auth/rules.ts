import { normalizeIP } from '@better-auth/core/utils/ip'
import type { BetterAuthPlugin } from 'better-auth'
import { APIError, createAuthMiddleware, getSessionFromCtx } from 'better-auth/api'
import type { Services } from '../../shared/services.ts'
import { addressHeader } from './accounts.ts'
import { type Budget, takeAttempt, tooManyAttempts } from './budgets.ts'
import { type HookContext, knownDevice } from './devices.ts'

const hour = { windowS: 3_600 }
/** Emails of one kind to one address an hour: by its owner, and by everybody else together. */
const maxEmails = 5
/** Of all signed-in people together, who are known and cannot be many at no cost. */
const maxEmailsByPeople = 20

/** Routes that send an email to an address that anybody may type in. */
const toVisitors = new Set(['/request-password-reset', '/send-verification-email'])
const toOthers = new Set(['/change-email', '/organization/invite-member'])

/** Bounds the emails that one address gets. An owner who is signed in, or on a known device, has a budget of their own. */
export function emailLimits(services: Services): BetterAuthPlugin {
  return {
    id: 'email-limits',
    hooks: {
      before: [
        {
          matcher: ({ path }) => toVisitors.has(path ?? '') || toOthers.has(path ?? ''),
          handler: createAuthMiddleware(async ctx => {
            const budgets = await emailBudgets(services, ctx)
            const retryAfterS = await takeAttempt(services.redis, budgets)
            if (retryAfterS > 0) throw tooManyAttempts('We have just sent several emails to this address.', retryAfterS)
          }),
        },
      ],
    },
  }
}

async function emailBudgets({ db }: Services, ctx: HookContext): Promise<Budget[]> {
  const email = String(ctx.body?.email ?? ctx.body?.newEmail).toLowerCase()
  const name = `email:${ctx.path}`
  const session = await getSessionFromCtx(ctx)
  if (toOthers.has(ctx.path)) {
    // What is refused anyway must not use up the limit.
    if (!session) return []
    return [
      { ...hour, name: `${name}:${session.user.id}:${email}`, most: maxEmails },
      { ...hour, name: `${name}:${email}`, most: maxEmailsByPeople },
    ]
  }
  const own = session?.user.email === email ? session.user.id : await knownDevice(ctx, db, { email })
  if (own) return [{ ...hour, name: `${name}:own:${own}`, most: maxEmails }]
  const address = normalizeIP(ctx.headers?.get(addressHeader) ?? '0.0.0.0', { ipv6Subnet: 64 })
  return [
    { ...hour, name: `${name}:${email}`, most: maxEmails },
    { ...hour, name: `${name}:address:${address}`, most: maxEmailsByPeople },
  ]
}

/** With SIGN_UP=invitation an account needs a pending invitation. Throws 403. */
export async function refuseUninvited({ config, db, clock }: Services, email: string): Promise<void> {
  if (config.signUp === 'open') return
  const pending = { email: email.toLowerCase(), status: 'pending', expiresAt: { gt: new Date(clock.now()) } }
  if (await db.invitation.findFirst({ where: pending, select: { id: true } })) return
  throw new APIError('FORBIDDEN', {
    code: 'SIGN_UP_BY_INVITATION',
    message: 'Accounts are made by invitation here. Ask an administrator to invite this address.',
  })
}
