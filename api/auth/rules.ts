import { APIError, createAuthMiddleware, getSessionFromCtx } from 'better-auth/api'
import type { Redis } from '../../shared/io/redis.ts'
import type { Services } from '../../shared/services.ts'
import { consume, type Rule } from './limits.ts'

const emails: Rule = { windowS: 3_600, most: 5 }

/** Sign-ins tried, and emails sent, for one address: whoever asks from many places meets this limit. */
const byEmail: Record<string, Rule & { signedIn?: true }> = {
  '/sign-in/email': { windowS: 900, most: 20 },
  '/request-password-reset': emails,
  '/send-verification-email': emails,
  '/change-email': { ...emails, signedIn: true },
  '/organization/invite-member': { ...emails, signedIn: true },
}

/** A hook that limits what is tried for one email address. Throws 429. */
export function limitByEmail(redis: Redis) {
  return createAuthMiddleware(async ctx => {
    const rule = byEmail[ctx.path]
    const email: unknown = ctx.body?.email ?? ctx.body?.newEmail
    if (!rule || typeof email !== 'string') return
    // What is refused anyway must not use up the limit.
    if (rule.signedIn && !(await getSessionFromCtx(ctx))) return
    const { allowed, retryAfterS } = await consume(redis, `email:${ctx.path}:${email.toLowerCase()}`, rule)
    if (allowed) return
    throw new APIError(
      'TOO_MANY_REQUESTS',
      {
        code: 'TOO_MANY_ATTEMPTS',
        message: `Too many attempts for this address. Try again in ${Math.ceil(retryAfterS / 60)} min.`,
      },
      { 'retry-after': String(retryAfterS) },
    )
  })
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
