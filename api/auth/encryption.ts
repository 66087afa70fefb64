import { symmetricDecrypt, symmetricEncrypt } from 'better-auth/crypto'
import type { Database } from '../../shared/io/db.ts'
import type { Sealer } from '../../shared/io/sealer.ts'

type LibraryKeys = { keys: Map<number, string>; currentVersion: number; legacySecret?: string }

/**
 * The keys with which the accounts library encrypts authenticator secrets. They derive from ENCRYPTION_KEY, so that
 * they survive a rotation of the cookie secret. `legacy` decrypts older values, and encrypts while no ENCRYPTION_KEY is
 * set.
 */
export function libraryKeys(sealer: Sealer, legacy: string): string | LibraryKeys {
  const keys = sealer.keysFor('accounts at rest')
  if (keys.length === 0) return legacy
  return {
    keys: new Map(keys.map(({ version, value }) => [version, value])),
    currentVersion: keys[0]!.version,
    legacySecret: legacy,
  }
}

const perPage = 200

/**
 * Re-encrypts the secrets of all authenticator apps with the current key; returns how many were not encrypted with it.
 */
export async function reencryptTwoFactors(db: Database, key: string | LibraryKeys): Promise<number> {
  if (typeof key === 'string') return 0
  const current = `$ba$${key.currentVersion}$`
  let changed = 0
  for (let after = ''; ; ) {
    const rows = await db.twoFactor.findMany({ where: { id: { gt: after } }, orderBy: { id: 'asc' }, take: perPage })
    for (const { id, secret, backupCodes } of rows) {
      if (secret.startsWith(current) && backupCodes.startsWith(current)) continue
      const reencrypt = async (data: string) => symmetricEncrypt({ key, data: await symmetricDecrypt({ key, data }) })
      const data = { secret: await reencrypt(secret), backupCodes: await reencrypt(backupCodes) }
      // A sign-in with a code meanwhile rewrote the row with the current key.
      const { count } = await db.twoFactor.updateMany({ where: { id, secret, backupCodes }, data })
      changed += count
    }
    if (rows.length < perPage) return changed
    after = rows.at(-1)!.id
  }
}
