import { readFile, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { run } from './run.ts'

/** The system account that PostgreSQL runs under. */
export type Account = { uid: number; gid: number }

export type Command = { command: string; args: string[]; spawn: Partial<Account> }

/** PostgreSQL refuses to run as root: if we are root, the account `postgres`, created if missing; else null, our own account. */
export async function postgresAccount(): Promise<Account | null> {
  if (process.getuid?.() !== 0) return null
  const account = await findAccount()
  if (account) return account
  await run('useradd', ['--system', '--user-group', '--no-create-home', 'postgres'])
  return (await findAccount())!
}

async function findAccount(): Promise<Account | null> {
  const [, uid, gid] = /^postgres:[^:]*:(\d+):(\d+):/m.exec(await readFile('/etc/passwd', 'utf8')) ?? []
  return uid && gid ? { uid: Number(uid), gid: Number(gid) } : null
}

/**
 * A command to run under an account. If the account cannot reach one of the `paths` (a project below /root), the command
 * keeps root's capability to traverse folders, and no other privilege of root.
 */
export async function asAccount(
  account: Account | null,
  command: string,
  args: string[],
  paths: string[],
): Promise<Command> {
  if (!account) return { command, args, spawn: {} }
  const reachable = await Promise.all([command, ...paths].map(isReachable))
  if (reachable.every(Boolean)) return { command, args, spawn: account }
  const keep = ['--inh-caps=+dac_override', '--ambient-caps=+dac_override', '--securebits=+no_setuid_fixup']
  const become = [`--reuid=${account.uid}`, `--regid=${account.gid}`, '--clear-groups']
  return { command: 'setpriv', args: [...become, ...keep, command, ...args], spawn: {} }
}

/** Whether every user may traverse all folders above a path. */
async function isReachable(path: string): Promise<boolean> {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const { mode } = await stat(folder)
    if ((mode & 0o001) === 0) return false
    if (folder === dirname(folder)) return true
  }
}
