import { hkdfSync } from 'node:crypto'
import type { Services } from '../../shared/services.ts'

export const authPath = '/dashboard/api/auth'
/** Set by us alone, from the connection and the proxies we trust. */
export const addressHeader = 'x-client-address'
export const oidcProvider = 'oidc'

/** Somebody signed in. */
export type Person = { id: string; email: string; name: string; emailVerified: boolean; operator: boolean }

export type Auth = {
  /** Answers a request for one of `authRoutes`; those with an organisation given one at a time. Throws 503. */
  handle(request: Request, alone: string | null): Promise<Response>
  /** Whose session the cookies among these headers are, null = nobody's, and the cookies that prolong it. Throws 503. */
  session(headers: Headers): Promise<{ person: Person | null; cookies: string[] }>
}

/**
 * The accounts, made when they are first needed: their library takes a third of the time of a start, and their secret is
 * kept in the database.
 */
export function openAuth(services: Services): () => Promise<Auth> {
  let opening: Promise<Auth> | null = null
  return () => {
    opening ??= open(services).catch(error => {
      opening = null
      throw error
    })
    return opening
  }
}

async function open(services: Services): Promise<Auth> {
  const [{ createAuth }, secret] = await Promise.all([import('./auth.ts'), services.signingSecret.get()])
  return createAuth(services, Buffer.from(hkdfSync('sha256', secret, '', 'accounts', 32)).toString('base64url'))
}
