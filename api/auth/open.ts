import { hkdfSync } from 'node:crypto'
import type { Services } from '../../shared/services.ts'
import type { Auth } from './accounts.ts'

/**
 * Opens the accounts on first use: their library takes a third of the start-up time, and their secret is read from the
 * database.
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
  const [{ createAuth }, secret] = await Promise.all([import('./auth.ts'), readAccountsSecret(services)])
  return createAuth(services, secret)
}

/** The secret that signs the cookies and links of accounts. Throws what Postgres throws. */
export async function readAccountsSecret({ signingSecret }: Services): Promise<string> {
  return Buffer.from(hkdfSync('sha256', await signingSecret.get(), '', 'accounts', 32)).toString('base64url')
}
