import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type Outcome, runCommand } from '../../api/operator/main.ts'
import type { Stores } from './gateway.ts'
import { inherited, shortLived } from './stack.ts'

const root = join(import.meta.dirname, '../..')

/** Runs one command of the operator command line in this process, with nothing but `env` as its environment. */
export function runOperator(env: Record<string, string>, ...args: string[]): Promise<Outcome> {
  return runCommand(args, env)
}

/** Runs one command as an operator does, as a process of its own: for what only a process shows, since each takes a second. */
export async function spawnOperator(env: Record<string, string>, ...args: string[]): Promise<Outcome> {
  const child = spawn(process.execPath, [...shortLived, 'api/operator.ts', ...args], {
    cwd: root,
    env: { ...inherited, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [[exitCode], stdout, stderr] = await Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)])
  return { exitCode, stdout, stderr }
}

/** The environment that names a test's own stores. */
export function storesEnv({ databaseUrl, redisUrl }: Pick<Stores, 'databaseUrl' | 'redisUrl'>) {
  return { DATABASE_URL: databaseUrl, REDIS_URL: redisUrl }
}

/** Runs a command with `--json` and gives its one document. Throws when it fails or writes anything else. */
export async function operatorJson<T>(stores: Pick<Stores, 'databaseUrl' | 'redisUrl'>, ...args: string[]): Promise<T> {
  const { exitCode, stdout, stderr } = await runOperator(storesEnv(stores), ...args, '--json')
  if (exitCode !== 0 || stderr !== '') throw new Error(`operator ${args.join(' ')}: exit ${exitCode}: ${stderr}`)
  return JSON.parse(stdout) as T
}
