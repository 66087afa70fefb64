import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { endOf } from './daemon.ts'
import { run } from './run.ts'

const downloadTimeoutMs = 120_000
const lockTimeoutSeconds = 300

/** A program from Debian's packages, unpacked into our own folder without changing the system. */
export type Unpacking<Program> = {
  directory: string
  packages(): Promise<string[]>
  /** Prepares the unpacked files to run. */
  prepare(folder: string): Promise<void>
  /** Finds the program in a folder; null when it is missing or does not run. */
  find(folder: string): Promise<Program | null>
}

/**
 * Finds a program in `directory`, or downloads and unpacks it there; concurrent processes wait for the first one. Throws an
 * Error if there is no `apt-get`, or its archive is unreachable.
 */
export async function unpacked<Program>(unpacking: Unpacking<Program>): Promise<Program> {
  const { directory, find } = unpacking
  const there = await find(directory)
  if (there) return there
  await mkdir(dirname(directory), { recursive: true })
  return locked(`${directory}.lock`, async () => (await find(directory)) ?? unpack(unpacking))
}

/** The packages among these and their dependencies that this system does not have. */
export async function missingPackages(packages: readonly string[]): Promise<string[]> {
  const { stdout } = await apt(['install', '--simulate', '--no-install-recommends', ...packages])
  // A package with an installed version in brackets suffices: a C library must not be replaced for one program.
  return [...stdout.matchAll(/^Inst (\S+) \(/gm)].map(([, name]) => name!)
}

/** The environment in which programs of a folder find the libraries of the folder. */
export async function libraryEnvironment(folder: string): Promise<NodeJS.ProcessEnv> {
  const libraries = join(folder, 'usr/lib')
  const entries = await readdir(libraries, { recursive: true, withFileTypes: true }).catch(() => [])
  const folders = entries.filter(entry => /\.so(\.|$)/.test(entry.name)).map(({ parentPath }) => parentPath)
  return { ...process.env, LD_LIBRARY_PATH: [...new Set(folders)].join(':') }
}

async function unpack<Program>({ directory, packages, prepare, find }: Unpacking<Program>): Promise<Program> {
  // Under a temporary name until it runs: an interrupted start must not leave an incomplete program.
  const unfinished = `${directory}.unfinished`
  await rm(unfinished, { recursive: true, force: true })
  await mkdir(unfinished)
  await apt(['download', ...(await packages())], unfinished)
  const archives = (await readdir(unfinished)).filter(name => name.endsWith('.deb'))
  for (const name of archives) {
    await run('dpkg', ['-x', name, '.'], { cwd: unfinished })
    await rm(join(unfinished, name))
  }
  await prepare(unfinished)
  if (!(await find(unfinished))) throw new Error(`what was unpacked for ${directory} does not run`)
  await rm(directory, { recursive: true, force: true })
  await rename(unfinished, directory)
  return (await find(directory))!
}

async function apt(args: string[], cwd?: string): Promise<{ stdout: string }> {
  const options = { cwd, timeout: downloadTimeoutMs, env: { ...process.env, LC_ALL: 'C' } }
  return run('apt-get', args, options).catch(async () => {
    await run('apt-get', ['update'], options) // Package lists may be missing or out of date.
    return run('apt-get', args, options)
  })
}

/** Runs `work` under an exclusive lock file. The system releases the lock when the process ends, even by a crash. */
async function locked<T>(file: string, work: () => Promise<T>): Promise<T> {
  const command = [`--timeout=${lockTimeoutSeconds}`, file, 'sh', '-c', 'echo; exec cat']
  const holder = spawn('flock', command, { stdio: ['pipe', 'pipe', 'ignore'] })
  const ended = endOf(holder)
  const failure = await Promise.race([once(holder.stdout, 'data').then(() => null), ended])
  if (failure !== null) throw new Error(`no lock on ${file}: ${failure}`)
  try {
    return await work()
  } finally {
    holder.stdin.end()
    await ended
  }
}
