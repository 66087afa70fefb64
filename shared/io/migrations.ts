/**
 * Migrations run over the `pg` driver, without the Prisma CLI's native schema engine, which npm does not carry: `npm install` is
 * sufficient on every platform. Who changes the schema runs the CLI with `dev/schema-engine.mjs`, which wraps the WebAssembly
 * engine; a test compares the migrated schema with `schema.prisma`.
 */

import { createHash, randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'

/** The advisory lock under which the Prisma CLI migrates, too. */
const migrationLock = 72_707_369
const lockWaitSeconds = 60
const connectTimeoutMs = 10_000
const lockNotAvailable = '55P03'

/** The table in which the Prisma CLI notes migrations, with its own definition. */
const createTable = `CREATE TABLE IF NOT EXISTS _prisma_migrations (
  id VARCHAR(36) PRIMARY KEY NOT NULL,
  checksum VARCHAR(64) NOT NULL,
  finished_at TIMESTAMPTZ,
  migration_name VARCHAR(255) NOT NULL,
  logs TEXT,
  rolled_back_at TIMESTAMPTZ,
  started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  applied_steps_count INTEGER NOT NULL DEFAULT 0
)`

/** A migration that cannot be applied. The message is one line for the person who deploys. */
export class MigrationError extends Error {
  override name = 'MigrationError'
}

type Migration = { name: string; sql: string; checksum: string }
type Applied = { migration_name: string; checksum: string; finished_at: Date | null; started_at: Date }

/**
 * Applies the migrations in `folder` that a database lacks, in the order of their names, and returns the names of those applied.
 * Each is one transaction with its row in `_prisma_migrations`, in the form that the Prisma CLI writes: a migration that fails
 * leaves nothing behind. (So `CREATE INDEX CONCURRENTLY` is not possible.) Several processes may run this at once, also through a
 * pooler in transaction mode: each transaction holds the CLI's advisory lock and reads again what is applied. Throws a
 * MigrationError for a migration that was changed since it was applied, that failed, or whose lock is not free within a minute;
 * and what `pg` throws for a database that cannot be reached.
 */
export async function applyMigrations(connectionString: string, folder: string): Promise<string[]> {
  const migrations = await readMigrations(folder)
  return withClient(connectionString, async client => {
    const applied: string[] = []
    for (let name = await applyNext(client, migrations); name; name = await applyNext(client, migrations))
      applied.push(name)
    return applied
  })
}

/**
 * Notes that migrations which the Prisma CLI left unfinished were rolled back, so that they are applied again: the one named, or all of them. PostgreSQL has
 * undone what such a migration did. Gives how many there were.
 */
export async function markRolledBack(connectionString: string, name: string | null = null): Promise<number> {
  return withClient(connectionString, async client => {
    await client.query(createTable)
    const { rowCount } = await client.query(
      `UPDATE _prisma_migrations SET rolled_back_at = now()
       WHERE finished_at IS NULL AND rolled_back_at IS NULL AND ($1::text IS NULL OR migration_name = $1)`,
      [name],
    )
    return rowCount ?? 0
  })
}

/** The names of the migrations in `folder`, in the order in which they are applied. */
export async function listMigrations(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true })
  const names = entries.filter(entry => entry.isDirectory()).map(entry => entry.name)
  return names.sort()
}

async function readMigrations(folder: string): Promise<Migration[]> {
  const names = await listMigrations(folder)
  return Promise.all(
    names.map(async name => {
      const sql = await readFile(join(folder, name, 'migration.sql'), 'utf8')
      return { name, sql, checksum: createHash('sha256').update(sql).digest('hex') }
    }),
  )
}

async function withClient<T>(connectionString: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: connectTimeoutMs })
  client.on('error', () => {}) // A connection that breaks rejects the query under way.
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** Applies the first pending migration; null when there is none. */
async function applyNext(client: pg.Client, migrations: readonly Migration[]): Promise<string | null> {
  await client.query('BEGIN')
  try {
    await lock(client)
    await client.query(createTable)
    const pending = firstPending(migrations, await readApplied(client))
    if (pending) await apply(client, pending)
    await client.query('COMMIT')
    return pending?.name ?? null
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {})
    throw error
  }
}

async function lock(client: pg.Client): Promise<void> {
  try {
    await client.query(`SET LOCAL lock_timeout = '${lockWaitSeconds}s'`)
    await client.query('SELECT pg_advisory_xact_lock($1)', [migrationLock])
    await client.query('SET LOCAL lock_timeout = DEFAULT')
  } catch (error) {
    if ((error as pg.DatabaseError).code !== lockNotAvailable) throw error
    const message = `Another process has been migrating this database for ${lockWaitSeconds} s. Try again when it has ended.`
    throw new MigrationError(message, { cause: error })
  }
}

async function readApplied(client: pg.Client): Promise<Map<string, Applied>> {
  const { rows } = await client.query<Applied>(
    `SELECT migration_name, checksum, finished_at, started_at FROM _prisma_migrations
     WHERE rolled_back_at IS NULL ORDER BY started_at`,
  )
  return new Map(rows.map(row => [row.migration_name, row]))
}

function firstPending(migrations: readonly Migration[], applied: ReadonlyMap<string, Applied>): Migration | undefined {
  for (const row of applied.values()) if (row.finished_at === null) throw unfinished(row)
  for (const { name, checksum } of migrations)
    if (applied.has(name) && applied.get(name)!.checksum !== checksum) throw changed(name)
  return migrations.find(({ name }) => !applied.has(name))
}

async function apply(client: pg.Client, { name, sql, checksum }: Migration): Promise<void> {
  try {
    await client.query(sql)
  } catch (error) {
    const { message, position } = error as pg.DatabaseError
    const line = position ? ` (line ${sql.slice(0, Number(position)).split('\n').length})` : ''
    throw new MigrationError(`Migration ${name} failed: ${message}${line}. Nothing of it was applied.`, {
      cause: error,
    })
  }
  await client.query(
    `INSERT INTO _prisma_migrations (id, checksum, migration_name, started_at, finished_at, applied_steps_count)
     VALUES ($1, $2, $3, now(), clock_timestamp(), 1)`,
    [randomUUID(), checksum, name],
  )
}

function unfinished({ migration_name: name, started_at: startedAt }: Applied): MigrationError {
  return new MigrationError(
    `Migration ${name} was started at ${startedAt.toISOString()} and did not finish. Check the database, then run \`npm run migrate -- --rolled-back ${name}\`.`,
  )
}

function changed(name: string): MigrationError {
  return new MigrationError(
    `Migration ${name} was changed after it was applied. Restore its migration.sql; a change of the schema is a new migration.`,
  )
}
