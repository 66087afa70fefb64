import { hkdfSync } from 'node:crypto'
import type { Platform } from '../../shared/platform.ts'
import type { Auth } from './accounts.ts'
import { acceptOlder } from './older-secrets.ts'

/**
 * Opens the accounts on first use: their library takes a third of the start-up time, and their secret is read from the
 * database.
 */
export function openAuth(services: Platform): () => Promise<Auth> {
  let opening: Promise<Auth> | null = null
  return () => {
    opening ??= open(services).catch(error => {
      opening = null
      throw error
    })
    return opening
  }
}

async function open(services: Platform): Promise<Auth> {
  const [{ createAuth }, [current, ...older]] = await Promise.all([import('./auth.ts'), readAccountsSecrets(services)])
  return acceptOlder(createAuth(services, current), current, older)
}

/**
 * The secrets of the cookies and links of accounts: the first one signs, all verify. Throws what Postgres throws.
 */
export async function readAccountsSecrets({ signingSecret }: Platform): Promise<[current: string, ...older: string[]]> {
  const derive = (secret: string) => Buffer.from(hkdfSync('sha256', secret, '', 'accounts', 32)).toString('base64url')
  return [derive(await signingSecret.get()), ...signingSecret.older.map(derive)]
}
