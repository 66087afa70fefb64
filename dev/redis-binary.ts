import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { libraryEnvironment, unpacked } from './debian.ts'
import { run } from './run.ts'

/** A Redis server's binary and its environment. */
export type RedisBinary = { file: string; env: NodeJS.ProcessEnv }

// redis-tools contains the server as well: redis-check-rdb is the same binary. The rest are its libraries.
const debianPackages = ['redis-tools', 'liblzf1', 'libjemalloc2', 'libatomic1']

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
  return unpacked({
    directory,
    packages: async () => debianPackages,
    prepare: folder => symlink('redis-check-rdb', join(folder, 'usr/bin/redis-server')),
    find: unpackedIn,
  }).catch(cause => {
    throw new Error(redisAdvice, { cause })
  })
}

async function unpackedIn(folder: string): Promise<RedisBinary | null> {
  const binary = { file: join(folder, 'usr/bin/redis-server'), env: await libraryEnvironment(folder) }
  return (await runs(binary)) ? binary : null
}

async function runs({ file, env }: RedisBinary): Promise<boolean> {
  return run(file, ['--version'], { env }).then(
    ({ stdout }) => / v=\d/.test(stdout),
    () => false,
  )
}
