import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { applyMigrations } from '../shared/io/migrations.ts'
import { step } from './progress.ts'
import { run } from './run.ts'

const root = join(import.meta.dirname, '..')
const generateWithinMs = 120_000

/** Makes the database client where the installation has not. Throws an Error with the command's output. */
export async function generateClient(): Promise<void> {
  if (existsSync(join(root, 'shared/generated/prisma/client.ts'))) return
  const prisma = join(root, 'node_modules/prisma/build/index.js')
  await step('generating the database client', () =>
    run(process.execPath, [prisma, 'generate'], { cwd: root, timeout: generateWithinMs }),
  )
}

/** Brings a database up to the newest migration. Throws as `applyMigrations` does. */
export async function migrate(databaseUrl: string): Promise<void> {
  await applyMigrations(databaseUrl, join(root, 'prisma/migrations'))
}
