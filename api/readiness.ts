import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { GatewayError } from '../shared/base/errors.ts'
import type { Database } from '../shared/io/db.ts'
import { withDeadline } from '../shared/io/retry.ts'
import type { Services } from '../shared/services.ts'

const patienceMs = 2_000

/**
 * Writes as the scripts of the gateway do, so that a server that is read-only, full or cannot save fails it. The keys it looks at
 * lie in many slots: no node of a Redis Cluster may run scripts like ours.
 */
const writingScript = `
  for _, key in ipairs({ 'instances', 'usage', 'jobs:watch', 'sweeper', 'lanes', 'wallet:ready' }) do
    redis.call('EXISTS', key)
  end
  return redis.call('SET', 'ready', 1, 'EX', 60)`

type Check = (services: Services) => Promise<unknown>

/** What requests need. The names are public; what was wrong goes to the log alone. */
const checks: Record<string, Check> = {
  redis: ({ redis }) => redis.eval(writingScript, 0),
  queues: ({ queues }) => Promise.all(Object.values(queues).map(queue => queue.isPaused())),
  postgres: ({ db }) => checkDatabase(db),
  storage: ({ blobs }) => blobs.check(),
}

/** Resolves when requests can be served. Throws 503 naming what fails, after two seconds at the latest. */
export async function checkReadiness(services: Services): Promise<void> {
  const names = Object.keys(checks)
  const outcomes = await Promise.allSettled(
    Object.values(checks).map(async check => withDeadline(check(services), patienceMs)),
  )
  const failing = names.filter((_, i) => outcomes[i]!.status === 'rejected')
  if (failing.length === 0) return
  const causes = outcomes.flatMap(outcome => (outcome.status === 'rejected' ? [outcome.reason] : []))
  throw new GatewayError('service_unavailable', `Not ready: ${failing.join(', ')}.`, {
    headers: { 'retry-after': '1' },
    metadata: { failing },
    cause: causes.length === 1 ? causes[0] : new AggregateError(causes, causes.map(String).join('; ')),
  })
}

let newestMigration: string | undefined

/** The newest migration this build knows: a database without it lacks what the code reads and writes. */
function readNewestMigration(): string {
  const entries = readdirSync(join(import.meta.dirname, '../prisma/migrations'), { withFileTypes: true })
  const names = entries.filter(entry => entry.isDirectory()).map(entry => entry.name)
  return names.sort().at(-1)!
}

async function checkDatabase(db: Database): Promise<void> {
  newestMigration ??= readNewestMigration()
  const name = newestMigration
  const [row] = await db.$queryRaw<{ applied: boolean; readonly: boolean }[]>`
    SELECT current_setting('transaction_read_only') = 'on' AS readonly, EXISTS (
      SELECT FROM _prisma_migrations
      WHERE migration_name = ${name} AND finished_at IS NOT NULL AND rolled_back_at IS NULL
    ) AS applied`
  if (row!.readonly) throw new Error('PostgreSQL is read-only')
  if (!row!.applied) throw new Error(`the migration ${name} is not applied`)
}
