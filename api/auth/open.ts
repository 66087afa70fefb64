import { hkdfSync } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { loadOnce } from '../../shared/base/load-once.ts'
import type { Platform } from '../../shared/platform.ts'
import type { Auth } from './accounts.ts'
import { acceptOlder } from './older-secrets.ts'

/**
 * Opens the accounts on first use: their library takes a third of the start-up time, and their secret is read from the
 * database.
 */
export function openAuth(services: Platform): () => Promise<Auth> {
  return loadOnce(() => open(services))
}

async function open(services: Platform): Promise<Auth> {
  const [current, ...older] = await readAccountsSecrets(services)
  const { createAuth } = await importAuth()
  return acceptOlder(createAuth(services, current), current, older)
}

/**
 * Imports the accounts. An import runs to its end in one turn of the event loop, and the whole would take 0.3 s, so the largest
 * parts of the library come first, each in its own turn: other requests are answered between them.
 */
async function importAuth(): Promise<typeof import('./auth.ts')> {
  const parts = [
    () => import('better-auth/api'),
    () => import('better-auth/plugins/organization'),
    () => import('@better-auth/passkey'),
  ]
  for (const importPart of parts) {
    await importPart()
    await setImmediate()
  }
  return import('./auth.ts')
}

/**
 * The secrets of the cookies and links of accounts: the first one signs, all verify. Throws what Postgres throws.
 */
export async function readAccountsSecrets({ signingSecret }: Platform): Promise<[current: string, ...older: string[]]> {
  const derive = (secret: string) => Buffer.from(hkdfSync('sha256', secret, '', 'accounts', 32)).toString('base64url')
  return [derive(await signingSecret.get()), ...signingSecret.older.map(derive)]
}
