import { AsyncLocalStorage } from 'node:async_hooks'
import { hkdfSync } from 'node:crypto'
import { type BetterAuthOptions, betterAuth } from 'better-auth'
import { prismaAdapter } from 'better-auth/adapters/prisma'
import { isAPIError } from 'better-auth/api'
import { genericOAuth, organization } from 'better-auth/plugins'
import { type IdPrefix, newId } from '../../shared/base/ids.ts'
import { type Actor, operatorActor } from '../../shared/keys/audit.ts'
import type { Services } from '../../shared/services.ts'
import { emails } from './emails.ts'
import { auditHooks, organisationDefaults } from './hooks.ts'
import { consume } from './limits.ts'
import { limitByEmail, refuseUninvited } from './rules.ts'

export const authPath = '/dashboard/api/auth'
/** Set by us alone, from the connection and the proxies we trust. */
export const addressHeader = 'x-client-address'
export const oidcProvider = 'oidc'

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

/** Somebody signed in. */
export type Person = { id: string; email: string; name: string; emailVerified: boolean; operator: boolean }

export type Auth = {
  /** Answers a request under `authPath`. */
  handle(request: Request): Promise<Response>
  /** Whose session the cookies among these headers are; null = nobody's. */
  person(headers: Headers): Promise<Person | null>
}

function createAuth(services: Services, secret: string): Auth {
  // The library's hooks do not say who acts; the request does.
  const acting = new AsyncLocalStorage<Headers>()
  const person = async (headers: Headers) => (await library.api.getSession({ headers }))?.user ?? null
  const actor = async () => {
    const user = await person(acting.getStore() ?? new Headers())
    return user ? { kind: 'user' as const, id: user.id, name: user.email } : operatorActor
  }
  const library = betterAuthOver(services, secret, actor)
  return { handle: request => acting.run(request.headers, () => library.handler(request)), person }
}

/** Accounts, sessions and organisations (better-auth) over our own tables. `secret` signs cookies and links. */
function betterAuthOver(services: Services, secret: string, actor: () => Promise<Actor>) {
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
    trustedOrigins: request => [new URL(publicUrl).origin, ...ownOrigin(request)],
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
    account: { accountLinking: { enabled: true, trustedProviders: [] }, encryptOAuthTokens: true },
    session: {
      expiresIn: sessionS,
      updateAge: dayS,
      fields: { activeOrganizationId: 'activeOrganisationId' },
    } as BetterAuthOptions['session'],
    databaseHooks: { user: { create: { before: user => refuseUninvited(services, user.email) } } },
    hooks: { before: limitByEmail(redis) },
    rateLimit: {
      enabled: true,
      window: 60,
      max: 300,
      customRules: {
        '/sign-in/*': { window: 60, max: 20 },
        '/sign-up/*': { window: 600, max: 10 },
        '/request-password-reset': { window: 600, max: 10 },
        '/send-verification-email': { window: 600, max: 10 },
        '/reset-password': { window: 600, max: 20 },
        '/change-password': { window: 600, max: 20 },
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
      database: { generateId: ({ model }) => newId(prefixes[model] ?? 'req') },
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
        organizationHooks: { ...organisationDefaults(services), ...auditHooks(services, actor) },
      }),
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
                  mapProfileToUser: ({ name, email }) => ({ name: name || email }),
                },
              ],
            }),
          ]
        : []),
    ],
  })
}

/** The accounts, made when they are first needed: their secret is kept in the database. */
export function openAuth(services: Services): () => Promise<Auth> {
  let opening: Promise<Auth> | null = null
  return () => {
    opening ??= services.signingSecret
      .get()
      .then(secret =>
        createAuth(services, Buffer.from(hkdfSync('sha256', secret, '', 'accounts', 32)).toString('base64url')),
      )
      .catch(error => {
        opening = null
        throw error
      })
    return opening
  }
}

/** The origin of the host that the request itself names: a page of it is ours, whatever PUBLIC_URL calls it. */
function ownOrigin(request: Request | undefined): string[] {
  return request ? [new URL(request.url).origin] : []
}

function logLevel(level: string): 'error' | 'warn' | 'info' | 'debug' {
  return level === 'error' || level === 'warn' || level === 'info' ? level : 'debug'
}

/** Errors by their names and messages alone: what else hangs on them may be a secret. */
function named(details: readonly unknown[]): string[] {
  return details.flatMap(detail => (detail instanceof Error ? `${detail.name}: ${detail.message}` : []))
}
