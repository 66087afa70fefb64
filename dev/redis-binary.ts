import { execFile } from 'node:child_process'
import { mkdir, readdir, rename, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** A Redis server's file and the environment that it needs. */
export type RedisBinary = { file: string; env: NodeJS.ProcessEnv }

// redis-tools has the server as well: it is redis-check-rdb under another name. The rest are the libraries it needs.
const debianPackages = ['redis-tools', 'liblzf1', 'libjemalloc2', 'libatomic1']
const downloadTimeoutMs = 120_000

export const redisAdvice =
  'No Redis server found. Install one (for example: apt-get install redis-server, or brew install redis), or set REDIS_URL.'

/**
 * Finds a Redis (or Valkey) server: on PATH, else unpacked in `directory` by an earlier start, else Debian's packages,
 * downloaded and unpacked into `directory` without touching the system. Throws an Error saying how to get one.
 */
export async function findRedis(directory: string): Promise<RedisBinary> {
  for (const name of ['redis-server', 'valkey-server']) {
    const installed = { file: name, env: process.env }
    if (await runs(installed)) return installed
  }
  const unpacked = await unpackedIn(directory)
  if (unpacked) return unpacked
  return downloadDebian(directory).catch(cause => {
    throw new Error(redisAdvice, { cause })
  })
}

async function downloadDebian(directory: string): Promise<RedisBinary> {
  // Under another name until it is known to run: a start that was interrupted here must not leave half a server.
  const unfinished = `${directory}.unfinished`
  await rm(unfinished, { recursive: true, force: true })
  await mkdir(unfinished, { recursive: true })
  const download = () =>
    run('apt-get', ['download', ...debianPackages], { cwd: unfinished, timeout: downloadTimeoutMs })
  await download().catch(async () => {
    await run('apt-get', ['update'], { timeout: downloadTimeoutMs }) // Package lists may be missing or out of date.
    await download()
  })
  const archives = (await readdir(unfinished)).filter(name => name.endsWith('.deb'))
  for (const name of archives) {
    await run('dpkg', ['-x', name, '.'], { cwd: unfinished })
    await rm(join(unfinished, name))
  }
  await symlink('redis-check-rdb', join(unfinished, 'usr/bin/redis-server'))
  if (!(await unpackedIn(unfinished))) throw new Error('the unpacked Redis server does not run')
  await rm(directory, { recursive: true, force: true })
  await rename(unfinished, directory)
  return (await unpackedIn(directory))!
}

async function unpackedIn(directory: string): Promise<RedisBinary | null> {
  const libraries = join(directory, 'usr/lib')
  const folders = await readdir(libraries).catch(() => [])
  const path = [libraries, ...folders.map(folder => join(libraries, folder))].join(':')
  const binary = { file: join(directory, 'usr/bin/redis-server'), env: { ...process.env, LD_LIBRARY_PATH: path } }
  return (await runs(binary)) ? binary : null
}

async function runs({ file, env }: RedisBinary): Promise<boolean> {
  return run(file, ['--version'], { env }).then(
    ({ stdout }) => / v=\d/.test(stdout),
    () => false,
  )
}
