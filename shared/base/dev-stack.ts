import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The file in which a development stack (`npm run dev`) writes its addresses, so that other commands find them. */
export const devStackFile = 'dev.json'
/** The file with the key that encrypts secrets in its database. */
export const encryptionKeyFile = 'encryption.key'

/** The environment variables of a development stack running on a data directory; empty if there is none. */
export function readDevStack(dataDir: string): Record<string, string> {
  try {
    const file = JSON.parse(readFileSync(join(dataDir, devStackFile), 'utf8')) as Record<string, unknown>
    const key = readEncryptionKey(dataDir)
    return {
      DATABASE_URL: String(file.databaseUrl),
      REDIS_URL: String(file.redisUrl),
      REDIS_KEY_PREFIX: String(file.redisKeyPrefix ?? ''),
      ...(key !== null && { ENCRYPTION_KEY: key }),
    }
  } catch {
    return {} // There is no development stack.
  }
}

/**
 * The development stack that runs on a data directory: its address, and the names of the variables that it was started with.
 * Null if there is none. Their values are not in the file: they may be secret.
 */
export function readRunningStack(dataDir: string): { address: string; variables: string[] } | null {
  try {
    const { address, variables } = JSON.parse(readFileSync(join(dataDir, devStackFile), 'utf8'))
    return Array.isArray(variables) ? { address: String(address), variables: variables.map(String) } : null
  } catch {
    return null
  }
}

function readEncryptionKey(dataDir: string): string | null {
  try {
    return readFileSync(join(dataDir, encryptionKeyFile), 'utf8').trim()
  } catch {
    return null
  }
}
