import { createOTP } from '@better-auth/utils/otp'
import { APIError } from 'better-auth/api'
import { symmetricDecrypt } from 'better-auth/crypto'
import type { Database } from '../../shared/io/db.ts'
import type { HookContext } from './devices.ts'

/** Changes of sign-in credentials: a session alone, which may be a forgotten one, is not sufficient. */
export const secondFactorChanges: ReadonlySet<string> = new Set([
  '/two-factor/enable',
  '/two-factor/disable',
  '/two-factor/generate-backup-codes',
  '/passkey/verify-registration',
  '/passkey/delete-passkey',
])
/** Maximum attempts to prove identity for a signed-in person. */
export const proofPaths: ReadonlySet<string> = new Set([...secondFactorChanges, '/change-password'])

type Owner = { id: string; twoFactorEnabled?: boolean | null }

/**
 * Asserts that the signed-in person sent the request: it contains their password (`password`) or, if they have none, a
 * code of their authenticator app (`code`). People with neither sign in elsewhere, so their session suffices. Throws
 * 400.
 */
export async function assertProof(
  ctx: HookContext,
  db: Database,
  { id: userId, twoFactorEnabled }: Owner,
): Promise<void> {
  const { password, code } = (ctx.body ?? {}) as { password?: string; code?: string }
  const account = await db.account.findFirst({ where: { userId, providerId: 'credential', password: { not: null } } })
  if (account) {
    if (password && (await ctx.context.password.verify({ hash: account.password!, password }))) return
    throw new APIError('BAD_REQUEST', { code: 'INVALID_PASSWORD', message: 'The password is wrong.' })
  }
  if (!twoFactorEnabled) return
  const app = await db.twoFactor.findUnique({ where: { userId } })
  const secret = app && (await symmetricDecrypt({ key: ctx.context.secretConfig, data: app.secret }))
  if (secret && code && (await createOTP(secret).verify(code))) return
  throw new APIError('BAD_REQUEST', { code: 'INVALID_CODE', message: 'The code is wrong.' })
}
