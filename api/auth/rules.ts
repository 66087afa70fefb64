import { normalizeIP } from '@better-auth/core/utils/ip'
import type { BetterAuthPlugin } from 'better-auth'
import { APIError, createAuthMiddleware, getSessionFromCtx } from 'better-auth/api'
import { asText } from '../../shared/base/as-text.ts'
import { GatewayError } from '../../shared/base/errors.ts'
import type { Platform } from '../../shared/platform.ts'
import { addressHeader } from './accounts.ts'
import { type Budget, takeAttempt, tooManyAttemptsError } from './budgets.ts'
import { findKnownDevice, type HookContext } from './devices.ts'

const hour = { windowS: 3_600 }
/** Limits of emails of one kind to one address per hour: by its owner, and by all others together. */
const maxEmails = 5
/** For all signed-in people together, who are authenticated and cannot be created in numbers for free. */
const maxEmailsByPeople = 20

/** The accounts library deletes what has expired by the clock of this machine, and dates sessions and links by it. */
const maxSkewMs = 3_600_000

/** Routes that send an email to an unverified address. */
const toVisitors = new Set(['/request-password-reset', '/send-verification-email'])
const toOthers = new Set(['/change-email', '/organization/invite-member'])

/** Limits the emails sent to one address. A signed-in owner, or one on a known device, has a separate budget. */
export function emailLimits(services: Platform): BetterAuthPlugin {
  return {
    id: 'email-limits',
    hooks: {
      before: [
        {
          matcher: ({ path }) => toVisitors.has(path ?? '') || toOthers.has(path ?? ''),
          handler: createAuthMiddleware(async ctx => {
            const budgets = await emailBudgets(services, ctx)
            const retryAfterS = await takeAttempt(services.redis, budgets)
            if (retryAfterS > 0)
              throw tooManyAttemptsError('We have just sent several emails to this address.', retryAfterS)
          }),
        },
      ],
    },
  }
}

async function emailBudgets({ db }: Platform, ctx: HookContext): Promise<Budget[]> {
  const email = asText(ctx.body?.email ?? ctx.body?.newEmail).toLowerCase()
  const name = `email:${ctx.path}`
  const session = await getSessionFromCtx(ctx)
  if (toOthers.has(ctx.path)) {
    // Requests that are rejected anyway must not use up the limit.
    if (!session) return []
    return [
      { ...hour, name: `${name}:${session.user.id}:${email}`, max: maxEmails },
      { ...hour, name: `${name}:${email}`, max: maxEmailsByPeople },
    ]
  }
  const ownerId = session?.user.email === email ? session.user.id : await findKnownDevice(ctx, db, { email })
  if (ownerId) return [{ ...hour, name: `${name}:own:${ownerId}`, max: maxEmails }]
  const address = normalizeIP(ctx.headers?.get(addressHeader) ?? '0.0.0.0', { ipv6Subnet: 64 })
  return [
    { ...hour, name: `${name}:${email}`, max: maxEmails },
    { ...hour, name: `${name}:address:${address}`, max: maxEmailsByPeople },
  ]
}

/** With SIGN_UP=invitation, an account requires a pending invitation. Throws 403. */
export async function assertInvited({ config, db, clock }: Platform, email: string): Promise<void> {
  if (config.signUp === 'open') return
  const pending = { email: email.toLowerCase(), status: 'pending', expiresAt: { gt: new Date(clock.now()) } }
  if (await db.invitation.findFirst({ where: pending, select: { id: true } })) return
  throw new APIError('FORBIDDEN', {
    code: 'SIGN_UP_BY_INVITATION',
    message: 'Sign-up is by invitation. Ask an administrator to invite this address.',
  })
}

/** Throws 503 if this machine's clock is so wrong that the library would end sessions and links before their time. */
export function assertClock({ clockSkew }: Platform): void {
  if (Math.abs(clockSkew.skewMs) <= maxSkewMs) return
  throw new GatewayError(
    'service_unavailable',
    'The clock of this server is wrong: nobody is signed in or out by it.',
    {
      headers: { 'retry-after': '10' },
    },
  )
}
