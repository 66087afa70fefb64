import type { Database } from '../../shared/io/db.ts'

export const secondFactorRequiredMessage =
  'This organisation requires two-factor sign-in. Set up an authenticator app in your account first.'

/**
 * Whether a sign-in method satisfies an organisation that requires two factors: a password needs an authenticator app
 * as well. Passkeys are two factors in one; for single sign-on, the provider decides.
 */
export async function hasSecondFactor(
  db: Database,
  { id, twoFactorEnabled }: { id: string; twoFactorEnabled?: boolean | null },
): Promise<boolean> {
  if (twoFactorEnabled) return true
  const where = { userId: id, providerId: 'credential', password: { not: null } }
  return (await db.account.count({ where })) === 0
}
