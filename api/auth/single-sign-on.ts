import { APIError } from 'better-auth/api'
import { type GenericOAuthConfig, genericOAuth } from 'better-auth/plugins/generic-oauth'
import { z } from 'zod'
import type { Database } from '../../shared/io/db.ts'
import type { Platform } from '../../shared/platform.ts'
import { recordChange } from './account-changes.ts'
import { maxNameCharacters, oidcProvider } from './accounts.ts'
import type { AuthRequest } from './auth-request.ts'
import type { emails } from './emails.ts'
import { userActor } from './hooks.ts'

type Oidc = NonNullable<Platform['config']['oidc']>
type Services = Pick<Platform, 'clock' | 'log'>
type Tokens = Parameters<NonNullable<GenericOAuthConfig['getUserInfo']>>[0]

const timeoutMs = 10_000
/** How far the provider's clock may be behind ours. */
const maxSkewS = 60

const discovery = z.object({ issuer: z.string(), userinfo_endpoint: z.string().optional() })
const profile = z.looseObject({ sub: z.string().min(1).optional(), email: z.string().optional() })
/** An ID token; who reads it need not verify its signature (see `readProfile`). */
const idTokenClaims = z.looseObject({
  iss: z.string(),
  sub: z.string().min(1),
  aud: z.union([z.string(), z.array(z.string())]),
  azp: z.string().optional(),
  exp: z.number(),
  email: z.string().optional(),
  tid: z.string().optional(),
})
type Profile = z.output<typeof profile>

/** Sign-in by the OpenID Connect provider of the configuration. */
export function singleSignOn(services: Services, oidc: Oidc) {
  const discoveryUrl = `${oidc.issuer.replace(/\/+$/, '')}/.well-known/openid-configuration`
  return genericOAuth({
    config: [
      {
        providerId: oidcProvider,
        discoveryUrl,
        clientId: oidc.clientId,
        clientSecret: oidc.clientSecret,
        scopes: ['openid', 'email', 'profile'],
        pkce: true,
        async getUserInfo(tokens) {
          try {
            return presentProfile(await readProfile(services, oidc.clientId, discoveryUrl, tokens))
          } catch (error) {
            services.log.warn({ err: error }, 'single sign-on gave no valid identity')
            return null
          }
        },
      },
    ],
  })
}

/**
 * Refuses a second identity of the provider for a person. An address may be given to another person later, an identity may not
 * (OpenID Connect Core 1.0, 5.7).
 */
export async function assertFirstIdentity(db: Database, account: { providerId: string; userId: string }) {
  const { providerId, userId } = account
  if (providerId !== oidcProvider || (await db.account.count({ where: { providerId, userId } })) === 0) return
  throw new APIError('FORBIDDEN', {
    code: 'ANOTHER_IDENTITY',
    message: 'This account belongs to another identity of the provider of single sign-on.',
  })
}

/** Tells a person who signs in by other means that single sign-on does so as well from now on, without a code of theirs. */
export async function noteLinked(
  { db }: Pick<Platform, 'db'>,
  currentRequest: () => AuthRequest,
  mail: Pick<ReturnType<typeof emails>, 'secondFactorChanged'>,
  { providerId, userId }: { providerId: string; userId: string },
): Promise<void> {
  if (providerId !== oidcProvider) return
  const otherMeans = { accounts: { some: { providerId: { not: oidcProvider } } } }
  const person = await db.user.findFirst({ where: { id: userId, OR: [otherMeans, { passkeys: { some: {} } }] } })
  if (!person) return
  const actor = userActor(person, currentRequest().headers)
  await recordChange(db, person, { action: 'member.single_sign_on_linked' }, actor)
  await mail.secondFactorChanged(person, 'Single sign-on was connected: it signs you in without a code of your app')
}

/**
 * Reads the profile of who signed in, from the ID token or the userinfo endpoint. The ID token comes from the token endpoint itself,
 * whose TLS stands for its signature (OpenID Connect Core 1.0, 3.1.3.7, 6). Throws if it is not for us, or they are not of the same person.
 */
async function readProfile(
  { clock }: Services,
  clientId: string,
  discoveryUrl: string,
  { idToken, accessToken }: Tokens,
): Promise<Profile> {
  const { issuer, userinfo_endpoint: userinfo } = discovery.parse(await fetchJson(discoveryUrl))
  const claims = idToken ? idTokenClaims.parse(payloadOf(idToken)) : null
  if (claims) assertForUs(claims, issuer, clientId, clock.now() / 1_000)
  if (claims?.email) return claims
  if (!userinfo) throw new Error('there is no address in the ID token, and no userinfo endpoint')
  const found = profile.parse(await fetchJson(userinfo, { authorization: `Bearer ${accessToken}` }))
  if (claims && found.sub !== claims.sub) throw new Error('the userinfo endpoint speaks of another person')
  return found
}

/** What an ID token must state (OpenID Connect Core 1.0, 3.1.3.7). */
function assertForUs(claims: z.output<typeof idTokenClaims>, issuer: string, clientId: string, nowS: number): void {
  const { iss, aud, azp, exp, tid } = claims
  // Microsoft's issuer for the tenants of everybody; Google's may be without its scheme (developers.google.com/identity/openid-connect).
  const expected = issuer.replace('{tenantid}', tid ?? '')
  if (iss !== expected && `https://${iss}` !== expected) throw new Error('the ID token is of another issuer')
  const audience = Array.isArray(aud) ? aud : [aud]
  if (!audience.includes(clientId) || (azp !== undefined && azp !== clientId))
    throw new Error('the ID token is for another client')
  if (exp + maxSkewS <= nowS) throw new Error('the ID token has expired')
}

/** The payload of a JWT, whose signature is not verified. Throws for anything else. */
export function payloadOf(token: string): unknown {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
}

async function fetchJson(url: string, headers: Record<string, string> = {}): Promise<unknown> {
  const response = await fetch(url, { headers, signal: AbortSignal.timeout(timeoutMs) })
  if (!response.ok) throw new Error(`the provider answered with status ${response.status}`)
  return response.json()
}

/**
 * A profile as the library stores it. `sub` alone identifies a person, whatever other claims there are; some providers write
 * `email_verified` as text.
 */
function presentProfile({ sub, name, email, email_verified: verified, picture }: Profile) {
  const shown = String(name || email)
    .replace(/[\p{Cc}\u2028\u2029]+/gu, ' ')
    .slice(0, maxNameCharacters)
  return {
    id: sub ?? '',
    name: shown,
    email,
    emailVerified: verified === true || verified === 'true',
    ...(typeof picture === 'string' && { image: picture }),
  }
}
