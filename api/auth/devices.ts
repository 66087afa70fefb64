import { hash, randomBytes } from 'node:crypto'
import type { createAuthMiddleware } from 'better-auth/api'
import type { Database } from '../../shared/io/db.ts'

/** The context that hooks of the library receive. */
export type HookContext = Parameters<Parameters<typeof createAuthMiddleware>[0]>[0]

/** A browser that signed in to an account, and a fingerprint of the password at that time. */
type DeviceEntry = { userId: string; device: string; password: string }

const cookieName = 'known_device'
/** Maximum accounts remembered per browser. */
const maxAccounts = 4
const maxAgeS = 365 * 24 * 3_600

/**
 * Returns the known device that a request comes from; null if the person has not signed in from it under the current
 * password.
 */
export async function findKnownDevice(
  ctx: HookContext,
  db: Database,
  who: { email: string } | { id: string },
): Promise<string | null> {
  const entries = await readEntries(ctx)
  if (entries.length === 0) return null
  const user = await db.user.findFirst({
    where: { ...('id' in who ? who : { email: who.email.toLowerCase() }) },
    select: { id: true, accounts: credential },
  })
  const entry = entries.find(({ userId }) => userId === user?.id)
  return entry && entry.password === fingerprint(user!.accounts) ? entry.device : null
}

/** Marks this browser as a known device of the person until the password changes. */
export async function rememberDevice(ctx: HookContext, db: Database, userId: string): Promise<void> {
  const accounts = await db.account.findMany({ ...credential, where: { userId, ...credential.where } })
  const entries = await readEntries(ctx)
  const previous = entries.find(entry => entry.userId === userId)
  const password = fingerprint(accounts)
  if (password === null || previous?.password === password) return
  const entry = { userId, device: previous?.device ?? randomBytes(12).toString('base64url'), password }
  const updated = [entry, ...entries.filter(other => other.userId !== userId)].slice(0, maxAccounts)
  const cookie = ctx.context.createAuthCookie(cookieName, { maxAge: maxAgeS })
  await ctx.setSignedCookie(cookie.name, updated.map(encode).join('~'), ctx.context.secret, cookie.attributes)
}

const credential = { where: { providerId: 'credential', password: { not: null } }, select: { password: true }, take: 1 }

/** Identifies a password without revealing it: hashes its salted hash. */
function fingerprint([account]: { password: string | null }[]): string | null {
  return account?.password ? hash('sha256', account.password, 'base64url').slice(0, 22) : null
}

async function readEntries(ctx: HookContext): Promise<DeviceEntry[]> {
  const { name } = ctx.context.createAuthCookie(cookieName)
  const text = (await ctx.getSignedCookie(name, ctx.context.secret)) || ''
  return text.split('~').flatMap(part => {
    const [userId, device, password] = part.split(':')
    return userId && device && password ? [{ userId, device, password }] : []
  })
}

function encode({ userId, device, password }: DeviceEntry): string {
  return [userId, device, password].join(':')
}
