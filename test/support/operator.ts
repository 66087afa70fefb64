import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Stores } from './gateway.ts'
import { inherited } from './stack.ts'

const root = join(import.meta.dirname, '../..')

export type Finished = { exitCode: number; stdout: string; stderr: string }

/** Runs one command of the operator command line as a process of its own, with nothing but `env` in its environment. */
export async function runOperator(env: Record<string, string>, ...args: string[]): Promise<Finished> {
  const child = spawn(process.execPath, ['api/operator.ts', ...args], {
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
