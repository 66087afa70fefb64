export const authPath = '/dashboard/api/auth'
/** Set by us alone, from the connection and the proxies we trust. */
export const addressHeader = 'x-client-address'
export const oidcProvider = 'oidc'
/** Of people and organisations. */
export const mostNameCharacters = 100

/** Somebody signed in. */
export type Person = {
  id: string
  email: string
  name: string
  emailVerified: boolean
  operator: boolean
  /** Whether their password is followed by a code of an authenticator app. */
  twoFactorEnabled: boolean
}

export type Auth = {
  /**
   * Answers a request for one of `authRoutes`, which has `taken` that of its body or query; those with an organisation (`alone`)
   * one at a time. Throws 503.
   */
  handle(request: Request, taken: Record<string, unknown>, alone: string | null): Promise<Response>
  /** Whose session the cookies among these headers are, null = nobody's, and the cookies that prolong it. Throws 503. */
  session(headers: Headers): Promise<{ person: Person | null; cookies: string[] }>
}
