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
  const [{ createAuth }, secret] = await Promise.all([import('./auth.ts'), services.signingSecret.get()])
  return createAuth(services, Buffer.from(hkdfSync('sha256', secret, '', 'accounts', 32)).toString('base64url'))
}
