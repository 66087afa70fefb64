import { AsyncLocalStorage } from 'node:async_hooks'
import { type PasskeyOptions, passkey } from '@better-auth/passkey'
import type { BetterAuthOptions } from 'better-auth'
import { prismaAdapter } from 'better-auth/adapters/prisma'
import { APIError, isAPIError } from 'better-auth/api'
import { betterAuth } from 'better-auth/minimal'
import { organization } from 'better-auth/plugins/organization'
import { defaultRoles } from 'better-auth/plugins/organization/access'
import { twoFactor } from 'better-auth/plugins/two-factor'
import { type IdPrefix, newId } from '../../shared/base/ids.ts'
import { type Actor, operatorActor } from '../../shared/io/audit.ts'
import { storeUnavailable } from '../../shared/io/outage.ts'
import type { Platform } from '../../shared/platform.ts'
import { accountLinks } from './account-links.ts'
import { type Auth, addressHeader, authPath, maxMembers, type Person } from './accounts.ts'
import type { AuthRequest } from './auth-request.ts'
import { refundAttempt } from './budgets.ts'
import { liftFirstKeyLimits } from './confirm-address.ts'
import { emails } from './emails.ts'
import { libraryKeys } from './encryption.ts'
import { guessLimits } from './guess-limits.ts'
import { afterLeaving, auditHooks, beforeLeaving, invitationRules, organisationDefaults, userActor } from './hooks.ts'
import { type Alone, consumeRateLimit, lockOf, withLock } from './limits.ts'
import { ownOrigins } from './origin.ts'
import { assertClock, assertInvited, emailLimits } from './rules.ts'
import { secondFactor } from './second-factor.ts'
import { assertFirstIdentity, noteLinked, singleSignOn } from './single-sign-on.ts'
import { suspensionHooks } from './suspension-hooks.ts'

const dayS = 24 * 3_600
const sessionS = 7 * dayS
const linkS = 3_600
const invitationS = 7 * dayS
const maxOrganisations = 10

const prefixes: Record<string, IdPrefix> = {
  user: 'user',
  session: 'sess',
  organization: 'org',
  member: 'mem',
  invitation: 'inv',
}

/** Creates the accounts over our own tables. `secret` signs cookies and links. */
export function createAuth(services: Platform, secret: string): Auth {
  // The library's hooks do not receive the acting person; the request does.
  const requests = new AsyncLocalStorage<AuthRequest>()
  const currentRequest = () => requests.getStore() ?? { headers: new Headers(), input: {} }
  const session = async (headers: Headers) => {
    assertClock(services)
    const result = await library.api.getSession({ headers, returnHeaders: true }).catch(rethrowOutage)
    const user = (result?.response?.user ?? null) as (Person & { suspendedAt?: Date | null }) | null
    return { person: user?.suspendedAt ? null : user, cookies: result?.headers.getSetCookie() ?? [] }
  }
  const actor = async () => {
    const { headers } = currentRequest()
    const { person } = await session(headers)
    return person ? userActor(person, headers) : operatorActor
  }
  const library = betterAuthOver(services, secret, actor, currentRequest)
  const answer = async (request: Request, authRequest: AuthRequest) => {
    try {
      return await requests.run(authRequest, () => library.handler(request))
    } finally {
      const { attempt, wrong } = authRequest
      if (attempt && !wrong) await refundAttempt(services.redis, attempt).catch(() => {}) // The key expires.
    }
  }
  const handle = async (request: Request, input: Record<string, unknown>, alone: Alone | null) => {
    assertClock(services)
    const { headers } = request
    const runRequest = () => answer(request, { headers, input })
    const lock = await lockOf(services.db, alone, input, async () => (await session(headers)).person)
    const response = await (lock === null ? runRequest() : withLock(services.redis, lock, runRequest))
    const path = new URL(request.url).pathname
    // The link of an email does not sign in: the email may have been forwarded to another person.
    if (path.endsWith('/verify-email')) response.headers.delete('set-cookie')
    // The library treats a session it cannot read as missing.
    if ((response.status === 401 || response.status === 500) && headers.has('cookie')) await session(headers)
    if (response.status === 500 && path.endsWith('/passkey/verify-registration')) return badPasskey()
    return response
  }
  return { handle, session }
}

/** The library reports a malformed passkey as an internal error. */
function badPasskey(): Response {
  const message = 'This passkey cannot be used: it is already registered, or the browser sent an invalid credential.'
  return Response.json({ code: 'FAILED_TO_VERIFY_REGISTRATION', message }, { status: 400 })
}

/**
 * Reading a session fails when the store does, but the library does not report the cause. Null if the session ended in
 * the meantime.
 */
function rethrowOutage(cause: unknown): null {
  if (isAPIError(cause) && cause.statusCode < 500) return null
  throw storeUnavailable(cause)
}

/** Configures accounts, sessions and organisations (better-auth). */
function betterAuthOver(
  services: Platform,
  secret: string,
  actor: () => Promise<Actor>,
  currentRequest: () => AuthRequest,
) {
  const { db, redis, config, mailer, log } = services
  const { publicUrl, oidc } = config
  const mail = emails(mailer, publicUrl)
  return betterAuth({
    appName: 'Headgate',
    baseURL: publicUrl,
    basePath: authPath,
    secret,
    // No transactions: hooks would wait for a second connection while holding the first. A sign-up interrupted between
    // account and password is repaired by a password reset.
    database: prismaAdapter(db, { provider: 'postgresql' }),
    trustedOrigins: request => [new URL(publicUrl).origin, ...ownOrigins(request)],
    telemetry: { enabled: false },
    logger: {
      level: 'warn',
      log: (level, message, ...details) => log[logLevel(level)]({ details: describeErrors(details) }, message),
    },
    onAPIError: {
      errorURL: `${publicUrl}/dashboard/sign-in`,
      // Errors that are not the library's own become our 500 or 503, and are logged as ours are.
      onError: error => {
        if (!isAPIError(error)) throw error
      },
    },
    ...passwordsAndAddresses(services, currentRequest, mail),
    account: { accountLinking: { enabled: true, trustedProviders: [] }, updateAccountOnSignIn: false },
    // Data read from the database cannot be used to sign in.
    verification: { storeIdentifier: 'hashed' },
    session: {
      expiresIn: sessionS,
      updateAge: dayS,
      // A signed-in person may list and end their sessions, regardless of the session's age.
      freshAge: 0,
      fields: { activeOrganizationId: 'activeOrganisationId' },
    } as BetterAuthOptions['session'],
    databaseHooks: rowHooks(services, currentRequest, mail),
    hooks: {
      before: beforeLeaving(services, actor, currentRequest),
      after: afterLeaving(services, actor, currentRequest),
    },
    rateLimit: rateLimits(redis),
    advanced: cookiesAndIds(publicUrl),
    plugins: [
      organisations(services, actor, currentRequest, mail),
      { id: 'encryption', init: () => ({ context: { secretConfig: libraryKeys(services.sealer, secret) } }) },
      // Consecutive failures are bounded by `guessLimits`: a lockout would let strangers lock an account.
      twoFactor({ allowPasswordless: true, accountLockout: { enabled: false } }),
      passkey(passkeyOptions(publicUrl)),
      emailLimits(services),
      accountLinks(db, currentRequest, mail),
      guessLimits(services, currentRequest),
      secondFactor(services, currentRequest, mail),
      ...(oidc ? [singleSignOn(services, oidc)] : []),
    ],
  })
}

/** What is checked and changed when the library creates a row. */
function rowHooks(services: Platform, currentRequest: () => AuthRequest, mail: ReturnType<typeof emails>) {
  return {
    user: { create: { before: user => assertInvited(services, user.email) } },
    account: {
      create: {
        before: async account => {
          await assertFirstIdentity(services.db, account)
          return { data: { ...account, ...noTokens } }
        },
        after: account => noteLinked(services, currentRequest, mail, account),
      },
    },
    session: { create: suspensionHooks(services) },
  } satisfies BetterAuthOptions['databaseHooks']
}

/** Sign-up, passwords and the confirmation of email addresses. */
function passwordsAndAddresses(services: Platform, currentRequest: () => AuthRequest, mail: ReturnType<typeof emails>) {
  return {
    emailAndPassword: {
      enabled: true,
      minPasswordLength: 10,
      maxPasswordLength: 128,
      resetPasswordTokenExpiresIn: linkS,
      revokeSessionsOnPasswordReset: true,
      sendResetPassword: ({ user, token }) => mail.passwordReset(user, token),
      onPasswordReset: async ({ user }) => {
        currentRequest().resetUserId = user.id
      },
    },
    emailVerification: {
      sendOnSignUp: true,
      expiresIn: dayS,
      sendVerificationEmail: ({ user, token }) => mail.verification(user, token),
      // The address is confirmed, whatever becomes of the limits, which the user can change from then on.
      afterEmailVerification: user =>
        liftFirstKeyLimits(services, user.id, userActor(user, currentRequest().headers)).catch(error =>
          services.log.error({ err: error, person: user.id }, 'the limits of the first test key are not lifted'),
        ),
    },
    user: {
      changeEmail: {
        enabled: true,
        sendChangeEmailConfirmation: ({ user, newEmail, token }) => mail.emailChange(user, newEmail, token),
      },
      additionalFields: {
        operator: { type: 'boolean', input: false, defaultValue: false },
        suspendedAt: { type: 'date', input: false, required: false },
      },
    },
  } satisfies BetterAuthOptions
}

/** Limits of requests per client address, in windows of seconds, counted in Redis. */
function rateLimits(redis: Platform['redis']) {
  return {
    enabled: true,
    window: 60,
    max: 300,
    customRules: {
      // Counts successful and failed attempts together; failed ones have limits of their own (`guessLimits`).
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
        const { allowed, retryAfterS } = await consumeRateLimit(redis, `address:${key}`, {
          windowS: window,
          max,
        })
        return { allowed, retryAfter: retryAfterS }
      },
    },
  } satisfies BetterAuthOptions['rateLimit']
}

/** Cookies, client addresses and ids. */
function cookiesAndIds(publicUrl: string) {
  return {
    // Set explicitly because the library omits them where NODE_ENV is `test`.
    disableOriginCheck: false,
    disableCSRFCheck: false,
    cookiePrefix: 'headgate',
    useSecureCookies: publicUrl.startsWith('https:'),
    defaultCookieAttributes: { httpOnly: true, sameSite: 'lax', path: '/dashboard' },
    ipAddress: { ipAddressHeaders: [addressHeader] },
    database: {
      generateId: ({ model }) => newId(prefixes[model] ?? 'req'),
      // Exceeds the size of any list of an organisation; the library's default of 100 would truncate.
      defaultFindManyLimit: 1_000,
    },
  } satisfies BetterAuthOptions['advanced']
}

/** Organisations with their members and invitations. */
function organisations(
  services: Platform,
  actor: () => Promise<Actor>,
  currentRequest: () => AuthRequest,
  mail: ReturnType<typeof emails>,
) {
  return organization({
    schema: {
      organization: { modelName: 'organisation' },
      member: { modelName: 'membership', fields: { organizationId: 'organisationId' } },
      invitation: { fields: { organizationId: 'organisationId' } },
      session: { fields: { activeOrganizationId: 'activeOrganisationId' } },
    },
    // The library checks these permissions for invitations and changes of members; all others are in shared/base/roles.ts.
    roles: { ...defaultRoles, billing: defaultRoles.member },
    organizationLimit: maxOrganisations,
    membershipLimit: maxMembers,
    invitationExpiresIn: invitationS,
    cancelPendingInvitationsOnReInvite: true,
    requireEmailVerificationOnInvitation: true,
    // The ledger and audit log of a deleted organisation are kept.
    disableOrganizationDeletion: true,
    sendInvitationEmail: invitation => mail.invitation(invitation),
    organizationHooks: {
      ...organisationDefaults(services, currentRequest),
      ...invitationRules(services, actor, currentRequest),
      ...auditHooks(services, actor, currentRequest),
    },
  })
}

/** Tokens of a single sign-on provider are used immediately; storing them would keep a secret without need. */
const noTokens = { accessToken: null, refreshToken: null, idToken: null }

function logLevel(level: string): 'error' | 'warn' | 'info' | 'debug' {
  return level === 'error' || level === 'warn' || level === 'info' ? level : 'debug'
}

/** Reduces errors to their names and messages: their other properties may hold secrets. */
function describeErrors(details: readonly unknown[]): string[] {
  return details.flatMap(detail => (detail instanceof Error ? `${detail.name}: ${detail.message}` : []))
}

/**
 * A passkey replaces the whole sign-in: the device must verify the user (fingerprint, face or PIN) and the passkey must
 * be discoverable without an email.
 */
function passkeyOptions(publicUrl: string): PasskeyOptions {
  const assertUserVerified = (is: boolean | undefined) => {
    if (!is) throw new APIError('BAD_REQUEST', { code: 'USER_NOT_VERIFIED', message: notVerified })
  }
  return {
    rpID: new URL(publicUrl).hostname,
    rpName: 'Headgate',
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    advanced: { webAuthnChallengeCookie: 'passkey_challenge' },
    registration: {
      afterVerification: async ({ verification }) => assertUserVerified(verification.registrationInfo?.userVerified),
    },
    authentication: {
      afterVerification: async ({ verification }) => assertUserVerified(verification.authenticationInfo.userVerified),
    },
  }
}

const notVerified = 'Your device did not verify you: use one with a fingerprint, face recognition or a PIN.'
