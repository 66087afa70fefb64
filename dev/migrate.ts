import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'

const run = promisify(execFile)
const root = join(import.meta.dirname, '..')
const migrateWithinMs = 120_000
const undefinedTable = '42P01'

/**
 * Brings a database up to the newest migration with `prisma migrate deploy`. The command takes a second or two to start,
 * so it is left out when nothing is pending. Throws an Error with the command's output when a migration fails.
 */
export async function migrate(databaseUrl: string): Promise<void> {
  const applied = await appliedMigrations(databaseUrl)
  if ((await migrationNames()).every(name => applied.has(name))) return
  const command = join(root, 'node_modules/prisma/build/index.js')
  // The engine starts as `node`: let it be the one that runs us.
  const PATH = `${dirname(process.execPath)}:${process.env.PATH}`
  const env = { ...process.env, PATH, DATABASE_URL: databaseUrl }
  await run(process.execPath, [command, 'migrate', 'deploy'], { cwd: root, env, timeout: migrateWithinMs })
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
