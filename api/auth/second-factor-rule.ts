import type { Database } from '../../shared/io/db.ts'

export const secondFactorWanted =
  'This organisation requires two-factor sign-in. Set up an authenticator app in your account first.'

/**
 * Whether somebody's way in is as an organisation with required two-factor sign-in wants it: a password needs an authenticator
 * app beside it. Passkeys are two factors in one, and single sign-on is up to its provider.
 */
export async function hasSecondFactor(
  db: Database,
  { id, twoFactorEnabled }: { id: string; twoFactorEnabled?: boolean | null },
): Promise<boolean> {
  if (twoFactorEnabled) return true
  const where = { userId: id, providerId: 'credential', password: { not: null } }
  return (await db.account.count({ where })) === 0
}
