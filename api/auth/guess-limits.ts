import { normalizeIP } from '@better-auth/core/utils/ip'
import type { BetterAuthPlugin } from 'better-auth'
import { APIError, createAuthMiddleware, getSessionFromCtx, isAPIError } from 'better-auth/api'
import { asText } from '../../shared/base/as-text.ts'
import type { Platform } from '../../shared/platform.ts'
import { addressHeader } from './accounts.ts'
import type { AuthRequest } from './auth-request.ts'
import { type Budget, resetAttempts, takeAttempt, tooManyAttemptsError } from './budgets.ts'
import { findKnownDevice, type HookContext, rememberDevice } from './devices.ts'
import { proofPaths } from './proof.ts'

const quarterHour = { windowS: 900 }
const day = { windowS: 24 * 3_600 }
/** A code from an authenticator app is valid for 90 seconds. */
const codeLifeS = 120

const secondSteps = new Set(['/two-factor/verify-totp', '/two-factor/verify-backup-code'])
/** The library's error codes for wrong credentials. */
const wrongGuesses = new Set(['INVALID_EMAIL_OR_PASSWORD', 'INVALID_PASSWORD', 'INVALID_CODE', 'INVALID_BACKUP_CODE'])

const emailBudgetNames = (email: string) => [`signin:email:${email}`, `signin:email-day:${email}`] as const
const codeBudgetNames = (userId: string) => [`code:user:${userId}`, `code:user-day:${userId}`] as const

/**
 * Limits how fast passwords and codes can be guessed (docs/decisions/accounts.md, "Guessing is slow"). Wrong attempts
 * are counted by known device, otherwise by address and account: strangers exhaust their own budgets, never those of a
 * known device. `currentRequest` returns the request being handled.
 */
export function guessLimits(services: Platform, currentRequest: () => AuthRequest): BetterAuthPlugin {
  const { db, redis } = services
  const attempt = async (budgets: readonly Budget[], message: string) => {
    const retryAfterS = await takeAttempt(redis, budgets)
    if (retryAfterS > 0) throw tooManyAttemptsError(message, retryAfterS)
    currentRequest().attempt = budgets
  }
  return {
    id: 'guessing',
    hooks: {
      before: [
        {
          matcher: ({ path }) => path === '/sign-in/email',
          handler: createAuthMiddleware(async ctx => {
            const email = asText(ctx.body?.email).toLowerCase()
            const device = await findKnownDevice(ctx, db, { email })
            await attempt(signInBudgets(email, device, addressOf(ctx)), device ? wrongOnKnownDevice : wrongElsewhere)
          }),
        },
        {
          matcher: ({ path }) => secondSteps.has(path ?? ''),
          handler: createAuthMiddleware(async ctx => {
            const userId = await findCodeOwner(ctx)
            if (userId === null) return // The library rejects it.
            const device = await findKnownDevice(ctx, db, { id: userId })
            await attempt(codeBudgets(userId, device), 'Too many wrong codes.')
            await rejectUsedCode(services, ctx, userId, currentRequest())
          }),
        },
        {
          matcher: ({ path }) => proofPaths.has(path ?? ''),
          handler: createAuthMiddleware(async ctx => {
            const session = await getSessionFromCtx(ctx)
            if (!session) return
            const budget = { ...quarterHour, name: `proof:${session.user.id}`, max: 10 }
            await attempt([budget], 'Too many wrong passwords or codes.')
          }),
        },
      ],
      after: [
        {
          matcher: () => true,
          handler: createAuthMiddleware(async ctx => {
            const { returned, newSession } = ctx.context
            if (isAPIError(returned)) {
              const { usedCode } = currentRequest()
              if (usedCode) await redis.del(usedCode)
              currentRequest().wrong = wrongGuesses.has(String(returned.body?.code))
              return
            }
            const { resetUserId } = currentRequest()
            if (resetUserId) await resetGuesses(services, resetUserId)
            const signedIn = newSession?.user.id ?? resetUserId
            if (signedIn) await rememberDevice(ctx, db, signedIn)
          }),
        },
      ],
    },
  }
}

const wrongOnKnownDevice = 'Too many wrong passwords.'
const wrongElsewhere =
  'Too many wrong passwords for this account. Sign in with a browser that you have used before, or reset your password by email (“Forgot the password?”), which works immediately.'

function signInBudgets(email: string, device: string | null, address: string): Budget[] {
  if (device) return [{ ...quarterHour, name: `signin:device:${device}`, max: 10 }]
  const [soon, daily] = emailBudgetNames(email)
  return [
    { ...quarterHour, name: `signin:pair:${email}:${address}`, max: 10 },
    { ...quarterHour, name: `signin:address:${address}`, max: 50 },
    { ...quarterHour, name: soon, max: 30 },
    { ...day, name: daily, max: 150 },
  ]
}

/**
 * A caller who is asked for a code has already given the password; such attempts are rare, and the owner gets no other
 * notice of them.
 */
function codeBudgets(userId: string, device: string | null): Budget[] {
  const [soon, daily] = device
    ? ([`code:device:${device}`, `code:device-day:${device}`] as const)
    : codeBudgetNames(userId)
  return [
    { ...quarterHour, name: soon, max: 10 },
    { ...day, name: daily, max: 30 },
  ]
}

/** A new password resets the counters that others filled. */
async function resetGuesses({ db, redis }: Platform, userId: string): Promise<void> {
  const user = await db.user.findUnique({ where: { id: userId }, select: { email: true } })
  await resetAttempts(redis, [...emailBudgetNames(user?.email ?? ''), ...codeBudgetNames(userId)])
}

/** The signed-in person, or the one who just gave the right password. */
async function findCodeOwner(ctx: HookContext): Promise<string | null> {
  const session = await getSessionFromCtx(ctx)
  if (session) return session.user.id
  const { name } = ctx.context.createAuthCookie('two_factor')
  const identifier = await ctx.getSignedCookie(name, ctx.context.secret)
  const pending = identifier ? await ctx.context.internalAdapter.findVerificationValue(identifier) : null
  return pending?.value ?? null
}

/** Each code is accepted once, which defeats shoulder surfing (RFC 6238, 5.2). */
async function rejectUsedCode(
  { redis }: Platform,
  ctx: HookContext,
  userId: string,
  request: AuthRequest,
): Promise<void> {
  if (ctx.path !== '/two-factor/verify-totp' || (await getSessionFromCtx(ctx))) return
  const key = `usedcode:${userId}:${asText(ctx.body?.code).slice(0, 16)}`
  const isNew = await redis.set(key, 1, 'EX', codeLifeS, 'NX')
  if (!isNew)
    throw new APIError('UNAUTHORIZED', {
      code: 'CODE_USED',
      message: 'This code was already used. Wait for the next one.',
    })
  request.usedCode = key
}

function addressOf(ctx: HookContext): string {
  return normalizeIP(ctx.headers?.get(addressHeader) ?? '0.0.0.0', { ipv6Subnet: 64 })
}
