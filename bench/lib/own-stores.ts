import { mkdirSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrate } from '../../dev/migrate.ts'
import { startPostgres } from '../../dev/postgres.ts'
import { startRedis } from '../../dev/redis.ts'
import { pinSelf, root } from './processes.ts'

export type OwnStores = { folder: string; databaseUrl: string; redisUrl: string }

/**
 * Runs a measurement over a migrated PostgreSQL and a Redis of its own, beside this process on `processors`. Their data is in the
 * folder `kept`, or in one that is removed. Linux only.
 */
export async function withOwnStores(
  processors: string,
  measure: (stores: OwnStores) => Promise<void>,
  kept?: string,
): Promise<void> {
  if (process.platform !== 'linux') throw new Error('it reads /proc and pins processes: it runs on Linux only')
  pinSelf(processors)
  const folder = kept ?? (await mkdtemp(join(tmpdir(), 'headgate-bench-')))
  const [postgres, redis] = await Promise.all([
    startPostgres({ dataDir: folder }),
    startRedis({ dataDir: folder, binaryDir: join(root, '.data/redis-bin') }),
  ])
  try {
    await migrate(postgres.url)
    await measure({ folder, databaseUrl: postgres.url, redisUrl: redis.url })
  } finally {
    await Promise.all([postgres.stop(), redis.stop()])
    if (kept === undefined) await rm(folder, { recursive: true, force: true })
  }
}

/** Keeps what was measured in `bench/results/<name>.json`. */
export function keepResults(name: string, results: object): void {
  mkdirSync(join(root, 'bench/results'), { recursive: true })
  writeFileSync(join(root, `bench/results/${name}.json`), JSON.stringify(results, null, 2))
}
