import { APIError, BASE_ERROR_CODES } from '@better-auth/core/error'
import type { BetterAuthPlugin } from 'better-auth'
import { createAuthMiddleware, getSessionFromCtx, isAPIError } from 'better-auth/api'
import { z } from 'zod'
import type { Changes } from '../../shared/io/audit.ts'
import type { Database } from '../../shared/io/db.ts'
import { recordChange } from './account-changes.ts'
import { oidcProvider } from './accounts.ts'
import type { AuthRequest } from './auth-request.ts'
import type { HookContext } from './devices.ts'
import type { emails } from './emails.ts'
import { userActor } from './hooks.ts'
import { payloadOf } from './single-sign-on.ts'

type Mail = Pick<ReturnType<typeof emails>, 'passwordChanged'>

/** The part of a link's token (a JWT) that says what it changes, and when it was issued, in seconds. */
const addressChange = z.object({ email: z.string(), updateTo: z.string(), iat: z.number() })

/**
 * Ends links of emails with a change of the account. Those that change its address: with the next change of the account or its
 * password. Otherwise a stranger who signed up with another person's address could keep one until that person has taken the
 * account over; so could an identity of single sign-on, which ends with the password. Those that replace its password, and sign-ins
 * that wait for a code: with the next password or address. Otherwise who could read the emails of the account, or knew its
 * password, could take it back. Such a change is in the audit log of the person's organisations, and that of a password is told by
 * email.
 */
export function accountLinks(db: Database, currentRequest: () => AuthRequest, mail: Mail): BetterAuthPlugin {
  return {
    id: 'account-links',
    hooks: {
      before: [
        {
          matcher: ({ path }) => path === '/verify-email',
          handler: createAuthMiddleware(async ctx => {
            const change = readChange(String(ctx.query?.token))
            if (!change || !(await hasChangedSince(db, change))) return
            // The answer to a forged token: another would tell strangers which accounts there are, and when they changed.
            throw APIError.from('UNAUTHORIZED', BASE_ERROR_CODES.INVALID_TOKEN)
          }),
        },
      ],
      after: [
        {
          matcher: ({ path }) => path === '/reset-password' || path === '/change-password' || path === '/verify-email',
          handler: createAuthMiddleware(async ctx => {
            if (isAPIError(ctx.context.returned)) return
            const request = currentRequest()
            const changed = await findChange(ctx, request)
            const person = changed && (await db.user.findUnique({ where: { id: changed.userId } }))
            if (!person) return
            // What is kept for an account until it is confirmed has its id as its value.
            await db.verification.deleteMany({ where: { value: person.id } })
            if (ctx.path === '/reset-password' && !person.emailVerified) await endStrangersIdentity(db, person.id)
            await recordChange(db, person, changed, userActor(person, request.headers))
            if (changed.changes === undefined) await mail.passwordChanged(person)
          }),
        },
      ],
    },
  }
}

/** Ends an identity that a provider which does not confirm addresses gave to a stranger: it would still sign in. */
async function endStrangersIdentity(db: Database, userId: string): Promise<void> {
  const { count } = await db.account.deleteMany({ where: { userId, providerId: oidcProvider } })
  if (count > 0) await db.session.deleteMany({ where: { userId } })
}

type Change = { userId: string; action: string; changes?: Changes }

/** The change of a password or an address that a request has made, of whose account; null if it has made none. */
async function findChange(ctx: HookContext, { resetUserId }: AuthRequest): Promise<Change | null> {
  if (ctx.path === '/reset-password')
    return resetUserId ? { userId: resetUserId, action: 'member.password_reset' } : null
  if (ctx.path === '/change-password') {
    const session = await getSessionFromCtx(ctx)
    return session && { userId: session.user.id, action: 'member.password_changed' }
  }
  const change = readChange(String(ctx.query?.token))
  // An old address that approves a change has not changed it.
  const { user } = ctx.context.returned as { user?: { id: string } | null }
  if (!change || !user) return null
  const changes: Changes = { email: [change.email, change.updateTo] }
  return { userId: user.id, action: 'member.email_changed', changes }
}

/** What a token changes, before the library has verified it; null if it only confirms an address. */
function readChange(token: string): z.output<typeof addressChange> | null {
  try {
    return addressChange.safeParse(payloadOf(token)).data ?? null
  } catch {
    return null // The library rejects it.
  }
}

async function hasChangedSince(db: Database, { email, iat }: { email: string; iat: number }): Promise<boolean> {
  const select = { updatedAt: true, accounts: { select: { updatedAt: true } } } as const
  const user = await db.user.findUnique({ where: { email }, select })
  const changes = user ? [user, ...user.accounts] : []
  return changes.some(({ updatedAt }) => Math.floor(updatedAt.getTime() / 1_000) > iat)
}
