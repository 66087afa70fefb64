import { execFile } from 'node:child_process'
import { stat } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '../../..')
const clients = join(root, 'test/clients')
const installWithinMs = 600_000
const execute = promisify(execFile)

/**
 * The libraries, and the coding agents with their programs. `npm ci` refuses a lock file without the programs of every
 * platform, which not every registry has.
 */
const installations = [
  { folder: clients, command: ['ci'] },
  { folder: join(clients, 'agents'), command: ['install', '--no-save'] },
]

/** Installs what the lock file of each folder names, unless that is there already. */
export async function installClients(signal: AbortSignal): Promise<void> {
  for (const { folder, command } of installations) {
    const [locked, installed] = await Promise.all([
      changedAtMs(join(folder, 'package-lock.json')),
      changedAtMs(join(folder, 'node_modules/.package-lock.json')),
    ])
    if (installed > locked) continue
    console.log(`installing clients into ${relative(root, folder)}`)
    await npm([...command, '--prefix', folder], signal)
  }
}

/** Runs npm with our node, whose version it asks. */
export async function npm(args: string[], signal: AbortSignal): Promise<void> {
  const options = { cwd: root, timeout: installWithinMs, signal, env: withOurNode() }
  await execute('npm', [...args, '--loglevel', 'error'], options)
}

/** Programs started from here find our node first. */
export function withOurNode(): NodeJS.ProcessEnv {
  return { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` }
}

async function changedAtMs(path: string): Promise<number> {
  const file = await stat(path).catch(() => null)
  return file?.mtimeMs ?? 0
}
