import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { run } from './run.ts'

const root = join(import.meta.dirname, '..')
const migrateWithinMs = 120_000
const undefinedTable = '42P01'

const prisma = join(root, 'node_modules/prisma/build/index.js')

/** Makes the database client where the installation has not. Throws an Error with the command's output. */
export async function generateClient(): Promise<void> {
  if (existsSync(join(root, 'shared/generated/prisma/client.ts'))) return
  await run(process.execPath, [prisma, 'generate'], { cwd: root, timeout: migrateWithinMs })
}

/**
 * Brings a database up to the newest migration with `prisma migrate deploy`. The command takes a second or two to start,
 * so it is left out when nothing is pending. Throws an Error with the command's output when a migration fails.
 */
export async function migrate(databaseUrl: string): Promise<void> {
  const applied = await appliedMigrations(databaseUrl)
  if ((await migrationNames()).every(name => applied.has(name))) return
  // The engine starts as `node`: let it be the one that runs us.
  const PATH = `${dirname(process.execPath)}:${process.env.PATH}`
  const env = { ...process.env, PATH, DATABASE_URL: databaseUrl }
  await run(process.execPath, [prisma, 'migrate', 'deploy'], { cwd: root, env, timeout: migrateWithinMs })
}

/**
 * Lets migrations be applied again that a stopped start left half done. PostgreSQL has undone them: each is one transaction. For
 * databases of our own only, as `prisma migrate resolve` is for others.
 */
export async function forgetInterrupted(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    const isUnfinished = 'finished_at IS NULL AND rolled_back_at IS NULL'
    await client.query(`UPDATE _prisma_migrations SET rolled_back_at = now() WHERE ${isUnfinished}`)
  } catch (error) {
    if ((error as pg.DatabaseError).code !== undefinedTable) throw error
  } finally {
    await client.end()
  }
}

async function migrationNames(): Promise<string[]> {
  const entries = await readdir(join(root, 'prisma/migrations'), { withFileTypes: true })
  return entries.filter(entry => entry.isDirectory()).map(entry => entry.name)
}

async function appliedMigrations(connectionString: string): Promise<Set<string>> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    const { rows } = await client.query<{ migration_name: string }>(
      'SELECT migration_name FROM _prisma_migrations WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL',
    )
    return new Set(rows.map(row => row.migration_name))
  } catch (error) {
    if ((error as pg.DatabaseError).code === undefinedTable) return new Set() // A new database.
    throw error
  } finally {
    await client.end()
  }
}
