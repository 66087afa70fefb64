import { APIError } from 'better-auth/api'
import type { Platform } from '../../shared/platform.ts'

type NewSession = { userId: string; token?: string }

/** Hooks of the accounts library that refuse the sessions of suspended people, however they sign in. */
export function suspensionHooks({ db }: Platform) {
  const assertNotSuspended = async (userId: string) => {
    const user = await db.user.findUnique({ where: { id: userId }, select: { suspendedAt: true } })
    if (user?.suspendedAt == null) return
    const message = 'This account is suspended. Contact the operator of this service.'
    throw new APIError('FORBIDDEN', { code: 'ACCOUNT_SUSPENDED', message })
  }
  return {
    before: ({ userId }: NewSession) => assertNotSuspended(userId),
    // Again, for a suspension between the first check and the insertion.
    after: async ({ userId, token }: NewSession) => {
      try {
        await assertNotSuspended(userId)
      } catch (error) {
        await db.session.deleteMany({ where: { userId, ...(token && { token }) } })
        throw error
      }
    },
  }
}
