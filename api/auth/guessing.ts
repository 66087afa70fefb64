import { normalizeIP } from '@better-auth/core/utils/ip'
import type { BetterAuthPlugin } from 'better-auth'
import { APIError, createAuthMiddleware, getSessionFromCtx, isAPIError } from 'better-auth/api'
import type { Services } from '../../shared/services.ts'
import { addressHeader } from './accounts.ts'
import type { Acting } from './acting.ts'
import { type Budget, forgetAttempts, takeAttempt, tooManyAttempts } from './budgets.ts'
import { type HookContext, knownDevice, rememberDevice } from './devices.ts'
import { proofPaths } from './proof.ts'

const quarterHour = { windowS: 900 }
const day = { windowS: 24 * 3_600 }
/** A code of an authenticator app is right for 90 seconds. */
const codeLifeS = 120

const secondSteps = new Set(['/two-factor/verify-totp', '/two-factor/verify-backup-code'])
/** What the library says when what somebody proves themselves with is wrong. */
const wrongGuesses = new Set(['INVALID_EMAIL_OR_PASSWORD', 'INVALID_PASSWORD', 'INVALID_CODE', 'INVALID_BACKUP_CODE'])

const ofEmail = (email: string) => [`signin:email:${email}`, `signin:email-day:${email}`] as const
const ofCodes = (userId: string) => [`code:user:${userId}`, `code:user-day:${userId}`] as const

/**
 * Bounds how often passwords and codes are guessed (docs/decisions/accounts.md, "Guessing is slow"). Wrong ones are counted, by
 * the device where the account knows it, else by address and account: strangers use up their own budgets, never those of a
 * known device. `acting` is the request at hand.
 */
export function guessing(services: Services, acting: () => Acting): BetterAuthPlugin {
  const { db, redis } = services
  const attempt = async (budgets: readonly Budget[], message: string) => {
    const retryAfterS = await takeAttempt(redis, budgets)
    if (retryAfterS > 0) throw tooManyAttempts(message, retryAfterS)
    acting().attempt = budgets
  }
  return {
    id: 'guessing',
    hooks: {
      before: [
        {
          matcher: ({ path }) => path === '/sign-in/email',
          handler: createAuthMiddleware(async ctx => {
            const email = String(ctx.body?.email).toLowerCase()
            const device = await knownDevice(ctx, db, { email })
            await attempt(signInBudgets(email, device, addressOf(ctx)), device ? wrongHere : wrongElsewhere)
          }),
        },
        {
          matcher: ({ path }) => secondSteps.has(path ?? ''),
          handler: createAuthMiddleware(async ctx => {
            const userId = await whoseCode(ctx)
            if (userId === null) return // The library refuses it.
            const device = await knownDevice(ctx, db, { id: userId })
            await attempt(codeBudgets(userId, device), 'Too many wrong codes.')
            await refuseUsedCode(services, ctx, userId, acting())
          }),
        },
        {
          matcher: ({ path }) => proofPaths.has(path ?? ''),
          handler: createAuthMiddleware(async ctx => {
            const session = await getSessionFromCtx(ctx)
            if (!session) return
            const budget = { ...quarterHour, name: `proof:${session.user.id}`, most: 10 }
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
              const { usedCode } = acting()
              if (usedCode) await redis.del(usedCode)
              acting().wrong = wrongGuesses.has(String(returned.body?.code))
              return
            }
            const { resetUserId } = acting()
            if (resetUserId) await forgetGuesses(services, resetUserId)
            const signedIn = newSession?.user.id ?? resetUserId
            if (signedIn) await rememberDevice(ctx, db, signedIn)
          }),
        },
      ],
    },
  }
}

const wrongHere = 'Too many wrong passwords.'
const wrongElsewhere =
  'Too many wrong passwords for this account. Sign in with a browser that you have used before, or choose a new password by email (“Forgot the password?”), which works at once.'

function signInBudgets(email: string, device: string | null, address: string): Budget[] {
  if (device) return [{ ...quarterHour, name: `signin:device:${device}`, most: 10 }]
  const [soon, daily] = ofEmail(email)
  return [
    { ...quarterHour, name: `signin:pair:${email}:${address}`, most: 10 },
    { ...quarterHour, name: `signin:address:${address}`, most: 50 },
    { ...quarterHour, name: soon, most: 30 },
    { ...day, name: daily, most: 150 },
  ]
}

/** Whoever is asked for a code has said the password already: they are few, and the owner learns of nothing else. */
function codeBudgets(userId: string, device: string | null): Budget[] {
  const [soon, daily] = device ? ([`code:device:${device}`, `code:device-day:${device}`] as const) : ofCodes(userId)
  return [
    { ...quarterHour, name: soon, most: 10 },
    { ...day, name: daily, most: 30 },
  ]
}

/** A new password ends what others have counted up. */
async function forgetGuesses({ db, redis }: Services, userId: string): Promise<void> {
  const user = await db.user.findUnique({ where: { id: userId }, select: { email: true } })
  await forgetAttempts(redis, [...ofEmail(user?.email ?? ''), ...ofCodes(userId)])
}

/** Of whoever is signed in, or has just given the right password. */
async function whoseCode(ctx: HookContext): Promise<string | null> {
  const session = await getSessionFromCtx(ctx)
  if (session) return session.user.id
  const { name } = ctx.context.createAuthCookie('two_factor')
  const identifier = await ctx.getSignedCookie(name, ctx.context.secret)
  const pending = identifier ? await ctx.context.internalAdapter.findVerificationValue(identifier) : null
  return pending?.value ?? null
}

/** A code that was seen over somebody's shoulder is of no use: each is taken once (RFC 6238, 5.2). */
async function refuseUsedCode({ redis }: Services, ctx: HookContext, userId: string, request: Acting): Promise<void> {
  if (ctx.path !== '/two-factor/verify-totp' || (await getSessionFromCtx(ctx))) return
  const key = `usedcode:${userId}:${String(ctx.body?.code).slice(0, 16)}`
  const isNew = await redis.set(key, 1, 'EX', codeLifeS, 'NX')
  if (!isNew)
    throw new APIError('UNAUTHORIZED', { code: 'CODE_USED', message: 'This code was used. Wait for the next.' })
  request.usedCode = key
}

function addressOf(ctx: HookContext): string {
  return normalizeIP(ctx.headers?.get(addressHeader) ?? '0.0.0.0', { ipv6Subnet: 64 })
}
