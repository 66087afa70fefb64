import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Where a development stack started by `npm run dev` writes its addresses, so that commands beside it find them. */
export const devStackFile = 'dev.json'
/** Where it keeps the key that encrypts secrets in its database. */
export const encryptionKeyFile = 'encryption.key'

/** What a development stack running on a data directory has by way of environment variables; nothing where there is none. */
export function devStack(dataDir: string): Record<string, string> {
  try {
    const file = JSON.parse(readFileSync(join(dataDir, devStackFile), 'utf8')) as Record<string, unknown>
    const key = keyIn(dataDir)
    return {
      DATABASE_URL: String(file.databaseUrl),
      REDIS_URL: String(file.redisUrl),
      ...(key !== null && { ENCRYPTION_KEY: key }),
    }
  } catch {
    return {} // No development stack here.
  }
}

function keyIn(dataDir: string): string | null {
  try {
    return readFileSync(join(dataDir, encryptionKeyFile), 'utf8').trim()
  } catch {
    return null
  }
}
