import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import pg from 'pg'
import { dieWithParent } from '../../../dev/daemon.ts'
import { applyMigrations, markRolledBack } from '../../../shared/io/migrations.ts'
import { freshDatabase, inherited } from '../../support/stack.ts'
import { type ExecutionContext, test } from '../../support/test.ts'

const root = join(import.meta.dirname, '../../..')
const shipped = join(root, 'prisma/migrations')
const note = '20990101000000_note'

/** An empty database. */
async function emptyDatabase(t: ExecutionContext): Promise<string> {
  const { url, drop } = await freshDatabase()
  t.teardown(drop)
  await query(url, 'DROP SCHEMA public CASCADE')
  await query(url, 'DROP SCHEMA partitions CASCADE')
  await query(url, 'CREATE SCHEMA public')
  return url
}

/** A folder of migrations: those shipped, and one more that a test writes. */
async function folderWith(t: ExecutionContext, sql: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-migrations-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  await cp(shipped, folder, { recursive: true })
  await mkdir(join(folder, note))
  await writeFile(join(folder, note, 'migration.sql'), sql)
  return folder
}

async function query(url: string, sql: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(sql, values)).rows
  } finally {
    await client.end()
  }
}

/** Runs a command of the project's folder to its end. */
async function runCommand(args: string[], url: string): Promise<{ code: number | null; output: string }> {
  const PATH = `${dirname(process.execPath)}:${inherited.PATH}`
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...inherited, PATH, DATABASE_URL: url },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  dieWithParent(child, 'SIGKILL')
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', part => (output += part))
  await once(child, 'close')
  return { code: child.exitCode, output }
}

const prisma = join(root, 'node_modules/prisma/build/index.js')
const deploy = (url: string, ...args: string[]) => runCommand(['prisma/migrate.ts', ...args], url)

test('applied: every migration, once, in order, as the Prisma CLI notes and expects it', async t => {
  t.timeout(120_000)
  const url = await emptyDatabase(t)
  const names = (await readdir(shipped)).filter(name => /^\d/.test(name)).sort()
  const first = await deploy(url)
  t.is(first.code, 0, first.output)
  t.deepEqual(
    first.output.split('\n').filter(line => line.startsWith('applied')),
    names.map(name => `applied ${name}`),
  )
  const again = await deploy(url)
  t.deepEqual(again, { code: 0, output: 'The database is up to date.\n' })
  const rows = await query(url, 'SELECT * FROM _prisma_migrations ORDER BY started_at')
  t.deepEqual(
    rows.map(row => row.migration_name),
    names,
  )
  for (const row of rows) {
    t.is(row.applied_steps_count, 1)
    t.true((row.finished_at as Date) >= (row.started_at as Date))
    t.is(row.logs, null)
  }
  const status = await runCommand([prisma, 'migrate', 'status'], url)
  t.is(status.code, 0, status.output)
  t.regex(status.output, /Database schema is up to date/)
})

test('the migrated schema is that of schema.prisma', async t => {
  t.timeout(120_000)
  const { url, drop } = await freshDatabase()
  t.teardown(drop)
  const against = ['--from-config-datasource', '--to-schema', 'prisma/schema.prisma', '--exit-code']
  const same = await runCommand([prisma, 'migrate', 'diff', ...against], url)
  t.is(same.code, 0, same.output)
  await query(url, 'ALTER TABLE api_keys DROP COLUMN name')
  const changed = await runCommand([prisma, 'migrate', 'diff', ...against], url)
  t.is(changed.code, 2, changed.output)
  t.regex(changed.output, /name/)
})

test('applied once: two processes migrate one database at the same time', async t => {
  const url = await emptyDatabase(t)
  const [one, two] = await Promise.all([applyMigrations(url, shipped), applyMigrations(url, shipped)])
  const names = (await readdir(shipped)).filter(name => /^\d/.test(name)).sort()
  t.deepEqual([...one, ...two].sort(), names)
  const [row] = await query(url, 'SELECT count(*)::int AS count FROM _prisma_migrations')
  t.is(row!.count, names.length)
})

test('refused: a migration that fails leaves nothing behind and is applied once it is mended', async t => {
  const { url, drop } = await freshDatabase()
  t.teardown(drop)
  const folder = await folderWith(t, 'CREATE TABLE note (text TEXT);\nCREATE TABLE note (text TEXT);\n')
  await t.throwsAsync(applyMigrations(url, folder), {
    name: 'MigrationError',
    message: /^Migration 20990101000000_note failed: relation "note" already exists.* Nothing of it was applied\.$/,
  })
  t.deepEqual(await query(url, `SELECT to_regclass('note') AS found`), [{ found: null }])
  await writeFile(join(folder, note, 'migration.sql'), 'CREATE TABLE note (text TEXT);\nSELEC 1;\n')
  await t.throwsAsync(applyMigrations(url, folder), { message: /syntax error at or near "SELEC" \(line 2\)/ })
  await writeFile(join(folder, note, 'migration.sql'), 'CREATE TABLE note (text TEXT);\n')
  t.deepEqual(await applyMigrations(url, folder), [note])
  t.deepEqual(await applyMigrations(url, folder), [])
})

test('refused: a migration that was changed after it was applied', async t => {
  const { url, drop } = await freshDatabase()
  t.teardown(drop)
  const folder = await folderWith(t, 'CREATE TABLE note (text TEXT);\n')
  await applyMigrations(url, folder)
  await writeFile(join(folder, note, 'migration.sql'), 'CREATE TABLE note (text TEXT, more TEXT);\n')
  const later = '20990101000001_later'
  await mkdir(join(folder, later))
  await writeFile(join(folder, later, 'migration.sql'), 'CREATE TABLE later (text TEXT);\n')
  await t.throwsAsync(applyMigrations(url, folder), {
    message: /^Migration 20990101000000_note was changed after it was applied\./,
  })
  t.deepEqual(await query(url, `SELECT to_regclass('later') AS found`), [{ found: null }])
})

test('refused: a migration that the Prisma CLI left unfinished, until it is noted as rolled back', async t => {
  const { url, drop } = await freshDatabase()
  t.teardown(drop)
  await query(
    url,
    `INSERT INTO _prisma_migrations (id, checksum, migration_name, started_at) VALUES ('1', 'x', $1, '2026-01-02T03:04:05Z')`,
    [note],
  )
  const refused = await deploy(url)
  t.is(refused.code, 1)
  t.regex(refused.output, /^Migration 20990101000000_note was started at 2026-01-02T03:04:05.000Z and did not finish\./)
  const wrong = await deploy(url, '--rolled-back', 'another')
  t.deepEqual(wrong, { code: 1, output: 'There is no unfinished migration named another.\n' })
  t.is((await deploy(url, '--rolled-back', note)).code, 0)
  const folder = await folderWith(t, 'CREATE TABLE note (text TEXT);\n')
  t.deepEqual(await applyMigrations(url, folder), [note])
  t.is(await markRolledBack(url), 0)
})

test('refused: a database that cannot be reached ends with 1 and one line that says why', async t => {
  t.timeout(120_000)
  const database = await freshDatabase()
  t.teardown(database.drop)
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  t.teardown(() => silent.close())
  const missing = new URL(database.url)
  missing.pathname = '/nobody_made_this'
  const stranger = new URL(database.url)
  stranger.password = 'guess'
  const cases: [url: string, reason: RegExp][] = [
    ['', /^Set DATABASE_URL/],
    ['redis://x', /^DATABASE_URL: must be a URL starting with postgres:\/\/ or postgresql:\/\/$/m],
    // As `openssl rand -base64` makes them.
    ['postgresql://x:guess/word@127.0.0.1/x', /^DATABASE_URL: .*in its password must be percent-encoded/],
    ['postgresql://x@127.0.0.1:1/x', /ECONNREFUSED 127\.0\.0\.1:1/],
    [missing.href, /database "nobody_made_this" does not exist/],
    [stranger.href, /password authentication failed/],
    [`postgresql://x@127.0.0.1:${(silent.address() as AddressInfo).port}/x`, /timeout/],
  ]
  for (const [url, reason] of cases) {
    const { code, output } = await deploy(url)
    t.is(code, 1, output)
    t.regex(output, reason)
    t.is(output.trim().split('\n').length, 1)
    t.notRegex(output, /guess/)
  }
})
