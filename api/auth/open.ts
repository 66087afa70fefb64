import { hkdfSync } from 'node:crypto'
import type { Services } from '../../shared/services.ts'
import type { Auth } from './accounts.ts'

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
  const [{ createAuth }, secret] = await Promise.all([import('./auth.ts'), accountsSecret(services)])
  return createAuth(services, secret)
}

/** What signs the cookies and links of accounts. Throws what Postgres throws. */
export async function accountsSecret({ signingSecret }: Services): Promise<string> {
  return Buffer.from(hkdfSync('sha256', await signingSecret.get(), '', 'accounts', 32)).toString('base64url')
}
