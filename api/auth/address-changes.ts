import { APIError, BASE_ERROR_CODES } from '@better-auth/core/error'
import type { BetterAuthPlugin } from 'better-auth'
import { createAuthMiddleware } from 'better-auth/api'
import { z } from 'zod'
import type { Database } from '../../shared/io/db.ts'

/** The part of a link's token (a JWT) that says what it changes, and when it was issued, in seconds. */
const addressChange = z.object({ email: z.string(), updateTo: z.string(), iat: z.number() })

/**
 * Ends the links that change the address of an account with the next change of the account or its password. Otherwise a stranger
 * who signed up with another person's address could keep one until that person has taken the account over.
 */
export function addressChanges(db: Database): BetterAuthPlugin {
  return {
    id: 'address-changes',
    hooks: {
      before: [
        {
          matcher: ({ path }) => path === '/verify-email',
          handler: createAuthMiddleware(async ctx => {
            const change = readChange(String(ctx.query?.token))
            if (!change || !(await hasChangedSince(db, change))) return
            // The answer to a forged token: another would tell strangers which accounts there are, and when they changed.
            throw APIError.from('UNAUTHORIZED', BASE_ERROR_CODES.INVALID_TOKEN)
          }),
        },
      ],
    },
  }
}

/** What a token changes, before the library has verified it; null if it only confirms an address. */
function readChange(token: string): z.output<typeof addressChange> | null {
  try {
    const payload = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString())
    return addressChange.safeParse(payload).data ?? null
  } catch {
    return null // The library rejects it.
  }
}

async function hasChangedSince(db: Database, { email, iat }: { email: string; iat: number }): Promise<boolean> {
  const select = { updatedAt: true, accounts: { select: { updatedAt: true } } } as const
  const user = await db.user.findUnique({ where: { email }, select })
  const changes = user ? [user, ...user.accounts] : []
  return changes.some(({ updatedAt }) => Math.floor(updatedAt.getTime() / 1_000) > iat)
}
