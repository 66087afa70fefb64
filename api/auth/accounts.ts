export const authPath = '/dashboard/api/auth'
/** Set by us alone, from the connection and the proxies we trust. */
export const addressHeader = 'x-client-address'
export const oidcProvider = 'oidc'
/** Of people and organisations. */
export const mostNameCharacters = 100

/** Somebody signed in. */
export type Person = { id: string; email: string; name: string; emailVerified: boolean; operator: boolean }

export type Auth = {
  /** Answers a request for one of `authRoutes`; those with an organisation given one at a time. Throws 503. */
  handle(request: Request, alone: string | null): Promise<Response>
  /** Whose session the cookies among these headers are, null = nobody's, and the cookies that prolong it. Throws 503. */
  session(headers: Headers): Promise<{ person: Person | null; cookies: string[] }>
}
