import { AsyncLocalStorage } from 'node:async_hooks'
import { passkey } from '@better-auth/passkey'
import type { BetterAuthOptions } from 'better-auth'
import { prismaAdapter } from 'better-auth/adapters/prisma'
import { isAPIError } from 'better-auth/api'
import { betterAuth } from 'better-auth/minimal'
import { genericOAuth } from 'better-auth/plugins/generic-oauth'
import { organization } from 'better-auth/plugins/organization'
import { twoFactor } from 'better-auth/plugins/two-factor'
import { type IdPrefix, newId } from '../../shared/base/ids.ts'
import { unavailable } from '../../shared/io/outage.ts'
import { type Actor, operatorActor } from '../../shared/keys/audit.ts'
import type { Services } from '../../shared/services.ts'
import { type Auth, addressHeader, authPath, mostNameCharacters, oidcProvider, type Person } from './accounts.ts'
import type { Acting } from './acting.ts'
import { giveBackAttempt } from './budgets.ts'
import { emails } from './emails.ts'
import { libraryKeys } from './encryption.ts'
import { guessing } from './guessing.ts'
import { afterLeaving, auditHooks, beforeLeaving, invitationRules, organisationDefaults } from './hooks.ts'
import { consume, oneAtATime } from './limits.ts'
import { ownOrigins } from './origin.ts'
import { passkeyOptions } from './passkeys.ts'
import { emailLimits, refuseUninvited } from './rules.ts'
import { secondFactor } from './second-factor.ts'

const dayS = 24 * 3_600
const sessionS = 7 * dayS
const linkS = 3_600
const invitationS = 7 * dayS
const mostMembers = 500
const mostOrganisations = 10

const prefixes: Record<string, IdPrefix> = {
  user: 'user',
  session: 'sess',
  organization: 'org',
  member: 'mem',
  invitation: 'inv',
}

/** Accounts over our own tables. `secret` signs cookies and links. */
export function createAuth(services: Services, secret: string): Auth {
  // The library's hooks do not say who acts; the request does.
  const requests = new AsyncLocalStorage<Acting>()
  const acting = () => requests.getStore() ?? { headers: new Headers(), taken: {} }
  const session = async (headers: Headers) => {
    const found = await library.api.getSession({ headers, returnHeaders: true }).catch(refuseOutage)
    return { person: (found?.response?.user ?? null) as Person | null, cookies: found?.headers.getSetCookie() ?? [] }
  }
  const actor = async () => {
    const { person } = await session(acting().headers)
    return person ? { kind: 'user' as const, id: person.id, name: person.email } : operatorActor
  }
  const library = betterAuthOver(services, secret, actor, acting)
  const answer = async (request: Request, at: Acting) => {
    try {
      return await requests.run(at, () => library.handler(request))
    } finally {
      const { attempt, wrong } = at
      if (attempt && !wrong) await giveBackAttempt(services.redis, attempt).catch(() => {}) // It expires.
    }
  }
  const handle = async (request: Request, taken: Record<string, unknown>, alone: string | null) => {
    const { headers } = request
    const answering = () => answer(request, { headers, taken })
    const answered = await (alone === null ? answering() : oneAtATime(services.redis, `members:${alone}`, answering))
    const path = new URL(request.url).pathname
    // The link of an email signs nobody in: it may be another person's who sent it on.
    if (path.endsWith('/verify-email')) answered.headers.delete('set-cookie')
    // The library takes a session that it cannot read for none.
    if ((answered.status === 401 || answered.status === 500) && headers.has('cookie')) await session(headers)
    if (answered.status === 500 && path.endsWith('/passkey/verify-registration')) return badPasskey()
    return answered
  }
  return { handle, session }
}

/** The library takes what is no passkey for a fault of its own. */
function badPasskey(): Response {
  const message = 'This passkey cannot be used: it is known already, or what the browser sent is no passkey.'
  return Response.json({ code: 'FAILED_TO_VERIFY_REGISTRATION', message }, { status: 400 })
}

/** Reading a session fails when the store does, and the library does not say how. Null for one that ended in that moment. */
function refuseOutage(cause: unknown): null {
  if (isAPIError(cause) && cause.statusCode < 500) return null
  throw unavailable(cause)
}

/** Accounts, sessions and organisations (better-auth). */
function betterAuthOver(services: Services, secret: string, actor: () => Promise<Actor>, acting: () => Acting) {
  const { db, redis, config, mailer, log } = services
  const { publicUrl, oidc } = config
  const mail = emails(mailer, publicUrl)
  return betterAuth({
    appName: 'Headgate',
    baseURL: publicUrl,
    basePath: authPath,
    secret,
    // No transactions: hooks would wait for a second connection while each holds one. A sign-up that is cut off between the
    // account and its password is mended by a new password.
    database: prismaAdapter(db, { provider: 'postgresql' }),
    trustedOrigins: request => [new URL(publicUrl).origin, ...ownOrigins(request)],
    telemetry: { enabled: false },
    logger: {
      level: 'warn',
      log: (level, message, ...details) => log[logLevel(level)]({ details: named(details) }, message),
    },
    onAPIError: {
      errorURL: `${publicUrl}/dashboard/sign-in`,
      // What is no refusal of the library's own becomes our 500 or 503, and is logged as ours are.
      onError: error => {
        if (!isAPIError(error)) throw error
      },
    },
    emailAndPassword: {
      enabled: true,
      minPasswordLength: 10,
      maxPasswordLength: 128,
      resetPasswordTokenExpiresIn: linkS,
      revokeSessionsOnPasswordReset: true,
      sendResetPassword: ({ user, token }) => mail.passwordReset(user, token),
      onPasswordReset: async ({ user }) => {
        acting().resetUserId = user.id
      },
    },
    emailVerification: {
      sendOnSignUp: true,
      expiresIn: dayS,
      sendVerificationEmail: ({ user, token }) => mail.verification(user, token),
    },
    user: {
      changeEmail: {
        enabled: true,
        sendChangeEmailConfirmation: ({ user, newEmail, token }) => mail.emailChange(user, newEmail, token),
      },
      additionalFields: { operator: { type: 'boolean', input: false, defaultValue: false } },
    },
    account: { accountLinking: { enabled: true, trustedProviders: [] }, updateAccountOnSignIn: false },
    // What is read in the database opens nothing.
    verification: { storeIdentifier: 'hashed' },
    session: {
      expiresIn: sessionS,
      updateAge: dayS,
      // Whoever is signed in may see and end their sessions, however long ago they signed in.
      freshAge: 0,
      fields: { activeOrganizationId: 'activeOrganisationId' },
    } as BetterAuthOptions['session'],
    databaseHooks: {
      user: { create: { before: user => refuseUninvited(services, user.email) } },
      account: { create: { before: async account => ({ data: { ...account, ...noTokens } }) } },
    },
    hooks: { before: beforeLeaving(services, actor, acting), after: afterLeaving(services, actor, acting) },
    rateLimit: {
      enabled: true,
      window: 60,
      max: 300,
      customRules: {
        // Of right and wrong ones together: wrong ones have limits of their own (`guessing`).
        '/sign-in/email': { window: 60, max: 300 },
        '/sign-in/oauth2': { window: 60, max: 20 },
        '/two-factor/*': { window: 60, max: 60 },
        '/passkey/*': { window: 60, max: 60 },
        '/sign-up/*': { window: 600, max: 10 },
        '/request-password-reset': { window: 600, max: 10 },
        '/send-verification-email': { window: 600, max: 10 },
        '/reset-password': { window: 600, max: 20 },
        '/change-password': { window: 600, max: 20 },
        '/change-email': { window: 600, max: 10 },
        '/organization/invite-member': { window: 600, max: 60 },
      },
      customStorage: {
        get: async () => null,
        set: async () => {},
        consume: async (key, { window, max }) => {
          const { allowed, retryAfterS } = await consume(redis, `address:${key}`, { windowS: window, most: max })
          return { allowed, retryAfter: retryAfterS }
        },
      },
    },
    advanced: {
      // Left unsaid, the library leaves them out where NODE_ENV is `test`.
      disableOriginCheck: false,
      disableCSRFCheck: false,
      cookiePrefix: 'headgate',
      useSecureCookies: publicUrl.startsWith('https:'),
      defaultCookieAttributes: { httpOnly: true, sameSite: 'lax', path: '/dashboard' },
      ipAddress: { ipAddressHeaders: [addressHeader] },
      database: {
        generateId: ({ model }) => newId(prefixes[model] ?? 'req'),
        // More than an organisation has of anything that is listed; the library's 100 would leave some out.
        defaultFindManyLimit: 1_000,
      },
    },
    plugins: [
      organization({
        schema: {
          organization: { modelName: 'organisation' },
          member: { modelName: 'membership', fields: { organizationId: 'organisationId' } },
          invitation: { fields: { organizationId: 'organisationId' } },
          session: { fields: { activeOrganizationId: 'activeOrganisationId' } },
        },
        organizationLimit: mostOrganisations,
        membershipLimit: mostMembers,
        invitationExpiresIn: invitationS,
        cancelPendingInvitationsOnReInvite: true,
        requireEmailVerificationOnInvitation: true,
        // Its ledger and its log stay.
        disableOrganizationDeletion: true,
        sendInvitationEmail: invitation => mail.invitation(invitation),
        organizationHooks: {
          ...organisationDefaults(services),
          ...invitationRules(services, actor, acting),
          ...auditHooks(services, actor, acting),
        },
      }),
      { id: 'encryption', init: () => ({ context: { secretConfig: libraryKeys(services.sealer, secret) } }) },
      // What is wrong in a row is bounded by `guessing`: an account that strangers can lock is no good.
      twoFactor({ allowPasswordless: true, accountLockout: { enabled: false } }),
      passkey(passkeyOptions(publicUrl)),
      emailLimits(services),
      guessing(services, acting),
      secondFactor(services, acting, mail),
      ...(oidc
        ? [
            genericOAuth({
              config: [
                {
                  providerId: oidcProvider,
                  discoveryUrl: `${oidc.issuer.replace(/\/+$/, '')}/.well-known/openid-configuration`,
                  clientId: oidc.clientId,
                  clientSecret: oidc.clientSecret,
                  scopes: ['openid', 'email', 'profile'],
                  pkce: true,
                  mapProfileToUser: presentProfile,
                },
              ],
            }),
          ]
        : []),
    ],
  })
}

/** What a provider of single sign-on gives is used at that moment; kept, it would be a secret for nothing. */
const noTokens = { accessToken: null, refreshToken: null, idToken: null }

/**
 * Who a provider of single sign-on says somebody is. A person is known by `sub` alone, whatever other claims there are, and some
 * providers write whether an address is confirmed as text.
 */
function presentProfile({ sub, name, email, email_verified: verified }: Record<string, unknown> & { sub?: string }) {
  const shown = String(name || email)
    .replace(/[\p{Cc}\u2028\u2029]+/gu, ' ')
    .slice(0, mostNameCharacters)
  return { id: sub, name: shown, emailVerified: verified === true || verified === 'true' }
}

function logLevel(level: string): 'error' | 'warn' | 'info' | 'debug' {
  return level === 'error' || level === 'warn' || level === 'info' ? level : 'debug'
}

/** Errors by their names and messages alone: what else hangs on them may be a secret. */
function named(details: readonly unknown[]): string[] {
  return details.flatMap(detail => (detail instanceof Error ? `${detail.name}: ${detail.message}` : []))
}
