import { hash, randomBytes } from 'node:crypto'
import type { createAuthMiddleware } from 'better-auth/api'
import type { Database } from '../../shared/io/db.ts'

/** What hooks of the library get. */
export type HookContext = Parameters<Parameters<typeof createAuthMiddleware>[0]>[0]

/** A browser that an account has signed in with, and what its password was then. */
type Known = { userId: string; device: string; password: string }

const cookieName = 'known_device'
/** Accounts that one browser is known for. */
const maxAccounts = 4
const maxAgeS = 365 * 24 * 3_600

/** Which device of a person's a request comes from; null for one that they have not signed in with under this password. */
export async function knownDevice(
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

/** Marks the browser of this request as one of the person's, until the password changes. */
export async function rememberDevice(ctx: HookContext, db: Database, userId: string): Promise<void> {
  const accounts = await db.account.findMany({ ...credential, where: { userId, ...credential.where } })
  const entries = await readEntries(ctx)
  const known = entries.find(entry => entry.userId === userId)
  const password = fingerprint(accounts)
  if (password === null || known?.password === password) return
  const entry = { userId, device: known?.device ?? randomBytes(12).toString('base64url'), password }
  const kept = [entry, ...entries.filter(other => other.userId !== userId)].slice(0, maxAccounts)
  const cookie = ctx.context.createAuthCookie(cookieName, { maxAge: maxAgeS })
  await ctx.setSignedCookie(cookie.name, kept.map(encode).join('~'), ctx.context.secret, cookie.attributes)
}

const credential = { where: { providerId: 'credential', password: { not: null } }, select: { password: true }, take: 1 }

/** Names a password without telling anything of it: what is hashed is its salted hash. */
function fingerprint([account]: { password: string | null }[]): string | null {
  return account?.password ? hash('sha256', account.password, 'base64url').slice(0, 22) : null
}

async function readEntries(ctx: HookContext): Promise<Known[]> {
  const { name } = ctx.context.createAuthCookie(cookieName)
  const text = (await ctx.getSignedCookie(name, ctx.context.secret)) || ''
  return text.split('~').flatMap(part => {
    const [userId, device, password] = part.split(':')
    return userId && device && password ? [{ userId, device, password }] : []
  })
}

function encode({ userId, device, password }: Known): string {
  return [userId, device, password].join(':')
}
