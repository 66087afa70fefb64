import type { Alone } from './limits.ts'

export const authPath = '/dashboard/api/auth'
/** Set by the gateway alone, from the connection and the trusted proxies. */
export const addressHeader = 'x-client-address'
export const oidcProvider = 'oidc'
/** Accounts of people and organisations. */
export const maxNameCharacters = 100
/** The most members that an organisation can have. */
export const maxMembers = 500

/** A signed-in person. */
export type Person = {
  id: string
  email: string
  name: string
  emailVerified: boolean
  operator: boolean
  /** Whether the password must be followed by a code from an authenticator app. */
  twoFactorEnabled: boolean
}

export type Auth = {
  /**
   * Answers a request for one of `authRoutes`, whose validated body or query is `input`. Requests of the same organisation
   * or person, as `alone` says, run one at a time. Throws 503.
   */
  handle(request: Request, input: Record<string, unknown>, alone: Alone | null): Promise<Response>
  /** The session of the cookies in these headers, null = none, and the cookies that renew it. Throws 503. */
  session(headers: Headers): Promise<{ person: Person | null; cookies: string[] }>
}
