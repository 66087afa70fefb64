import { join } from 'node:path'
import { GatewayError } from '../shared/base/errors.ts'
import type { Database } from '../shared/io/db.ts'
import { defineScript } from '../shared/io/lua-script.ts'
import { listMigrations } from '../shared/io/migrations.ts'
import type { Redis } from '../shared/io/redis.ts'
import { shardsOf } from '../shared/io/redis-shards.ts'
import { withDeadline } from '../shared/io/retry.ts'
import type { Platform } from '../shared/platform.ts'

const timeoutMs = 2_000

/**
 * Writes as the gateway's scripts do, so that a server that is read-only, full or unable to save fails the check. Without
 * redis+cluster:// or a REDIS_KEY_PREFIX with a hash tag, its keys are in many slots, as those of the gateway's scripts: a Redis
 * Cluster runs neither.
 */
const checkWrites = defineScript({
  name: 'check-writes',
  lua: `
    for _, key in ipairs(KEYS) do redis.call('EXISTS', key) end
    return redis.call('SET', ready_key, 1, 'EX', 60)`,
  fixedKeys: {
    instancesKey: 'instances',
    usageKey: 'usage',
    scheduleKey: 'jobs:watch',
    sweeperKey: 'sweeper',
    readyKey: 'ready',
  },
})

/** The organisations of a shard that accepts no writes cannot be served. */
async function checkShards(redis: Redis): Promise<void> {
  await Promise.all(shardsOf(redis).all.map(({ tag }) => checkWrites(redis, {}, tag)))
}

type Check = (services: Platform) => Promise<unknown>

/** The dependencies of requests. Their names are public; the causes of failures are only logged. */
const checks: Record<string, Check> = {
  redis: ({ redis }) => checkShards(redis),
  queues: ({ queues }) => Promise.all(Object.values(queues).map(queue => queue.isPaused())),
  postgres: ({ db }) => checkDatabase(db),
  storage: ({ blobs }) => blobs.check(),
}

/** Resolves if requests can be served. Throws 503 naming what fails, after two seconds at most. */
export async function checkReadiness(services: Platform): Promise<void> {
  const names = Object.keys(checks)
  const outcomes = await Promise.allSettled(
    Object.values(checks).map(async check => withDeadline(check(services), timeoutMs)),
  )
  const failedChecks = names.filter((_, i) => outcomes[i]!.status === 'rejected')
  if (failedChecks.length === 0) return
  const causes = outcomes.flatMap(outcome => (outcome.status === 'rejected' ? [outcome.reason] : []))
  throw new GatewayError('service_unavailable', `Not ready: ${failedChecks.join(', ')}.`, {
    headers: { 'retry-after': '1' },
    metadata: { failing: failedChecks },
    cause: causes.length === 1 ? causes[0] : new AggregateError(causes, causes.map(String).join('; ')),
  })
}

let newestMigration: string | undefined

/** The newest migration of this build: a database without it lacks columns that the code uses. */
async function readNewestMigration(): Promise<string> {
  const names = await listMigrations(join(import.meta.dirname, '../prisma/migrations'))
  return names.at(-1)!
}

async function checkDatabase(db: Database): Promise<void> {
  newestMigration ??= await readNewestMigration()
  const name = newestMigration
  const [row] = await db.$queryRaw<{ applied: boolean; readonly: boolean }[]>`
    SELECT current_setting('transaction_read_only') = 'on' AS readonly, EXISTS (
      SELECT FROM _prisma_migrations
      WHERE migration_name = ${name} AND finished_at IS NOT NULL AND rolled_back_at IS NULL
    ) AS applied`
  if (row!.readonly) throw new Error('PostgreSQL is read-only')
  if (!row!.applied) throw new Error(`the migration ${name} is not applied`)
}
