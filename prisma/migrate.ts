// Brings the database at DIRECT_DATABASE_URL, else DATABASE_URL, up to the newest migration: `npm run migrate`. With
// `--rolled-back <name>` it first notes that a migration which the Prisma CLI left unfinished was rolled back. Exits with 1 and one line
// on standard error when a migration cannot be applied.
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readVariableFiles } from '../shared/base/variable-files.ts'
import { databaseUrl } from '../shared/base/variables.ts'
import { applyMigrations, MigrationError, markRolledBack } from '../shared/io/migrations.ts'

try {
  const { values } = parseArgs({ options: { 'rolled-back': { type: 'string' } } })
  const { env, faults } = readVariableFiles(process.env)
  if (faults.length > 0) throw new MigrationError(faults.join('\n'))
  const name = env.DIRECT_DATABASE_URL ? 'DIRECT_DATABASE_URL' : 'DATABASE_URL'
  await migrate(name, env[name], values['rolled-back'])
} catch (error) {
  console.error(error instanceof MigrationError ? error.message : `The database cannot be migrated: ${reasonOf(error)}`)
  process.exitCode = 1
}

async function migrate(name: string, url: string | undefined, rolledBack: string | undefined): Promise<void> {
  if (!url) throw new MigrationError('Set DATABASE_URL to the database that is to be migrated.')
  const { error } = databaseUrl.safeParse(url)
  if (error) throw new MigrationError(`${name}: ${error.issues[0]!.message}`)
  if (rolledBack !== undefined && (await markRolledBack(url, rolledBack)) === 0)
    throw new MigrationError(`There is no unfinished migration named ${rolledBack}.`)
  const applied = await applyMigrations(url, join(import.meta.dirname, 'migrations'))
  for (const name of applied) console.log(`applied ${name}`)
  console.log('The database is up to date.')
}

/** What went wrong, in words; an attempt at several addresses has one error for each. */
function reasonOf(error: unknown): string {
  const { message, errors } = error as AggregateError
  return message || errors.map(({ message }) => message).join('; ')
}
