import { symmetricDecrypt, symmetricEncrypt } from 'better-auth/crypto'
import type { Database } from '../../shared/io/db.ts'
import type { Sealer } from '../../shared/keys/sealer.ts'

type LibraryKeys = { keys: Map<number, string>; currentVersion: number; legacySecret?: string }

/**
 * What the accounts' library encrypts the secrets of authenticator apps with: keys derived from the configured ones, so that
 * they outlive a change of what signs cookies. `legacy` opens what was written before there was one, and encrypts as long as
 * there is none.
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

/** Encrypts the secrets of all authenticator apps with the current key; answers how many were not. */
export async function reencryptTwoFactors(db: Database, key: string | LibraryKeys): Promise<number> {
  if (typeof key === 'string') return 0
  const current = `$ba$${key.currentVersion}$`
  let changed = 0
  for (let after = ''; ; ) {
    const rows = await db.twoFactor.findMany({ where: { id: { gt: after } }, orderBy: { id: 'asc' }, take: perPage })
    for (const { id, secret, backupCodes } of rows) {
      if (secret.startsWith(current) && backupCodes.startsWith(current)) continue
      const anew = async (data: string) => symmetricEncrypt({ key, data: await symmetricDecrypt({ key, data }) })
      const data = { secret: await anew(secret), backupCodes: await anew(backupCodes) }
      // A code that was used meanwhile wrote its row with the current key.
      const { count } = await db.twoFactor.updateMany({ where: { id, secret, backupCodes }, data })
      changed += count
    }
    if (rows.length < perPage) return changed
    after = rows.at(-1)!.id
  }
}
