import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'

const run = promisify(execFile)
const root = join(import.meta.dirname, '..')
const commandTimeoutMs = 30_000
const demoCreditUsd = '25'

export type DemoStack = { databaseUrl: string; redisUrl: string; dataDir: string }
export type DemoKeys = { liveKey: string; testKey: string }

/**
 * Makes a demo organisation with credits, a live key and a test key, once per database. The secrets are kept in
 * `<dataDir>/demo.json` (mode 0600), as the database has only their hashes. Throws an Error when a command fails.
 */
export async function seedDemo(stack: DemoStack): Promise<DemoKeys> {
  const file = join(stack.dataDir, 'demo.json')
  const kept = await readKeys(file)
  if (kept && (await areActive(stack.databaseUrl, [kept.liveKey, kept.testKey]))) return kept
  const { id } = await operator<{ id: string }>(stack, 'org', 'create', '--name', 'Demo')
  await operator(stack, 'credit', 'add', '--org', id, '--usd', demoCreditUsd, '--method', 'grant')
  const live = await operator<{ key: string }>(
    stack,
    'key',
    'create',
    '--org',
    id,
    '--env',
    'live',
    '--name',
    'Demo live',
  )
  const test = await operator<{ key: string }>(
    stack,
    'key',
    'create',
    '--org',
    id,
    '--env',
    'test',
    '--name',
    'Demo test',
  )
  const keys = { liveKey: live.key, testKey: test.key }
  await writeFile(file, JSON.stringify(keys), { mode: 0o600 })
  return keys
}

async function readKeys(file: string): Promise<DemoKeys | null> {
  return readFile(file, 'utf8')
    .then(JSON.parse)
    .catch(() => null) // The first start.
}

/** Whether this database knows the keys: DATABASE_URL may name another one than at the last start. */
async function areActive(connectionString: string, keys: string[]): Promise<boolean> {
  const hashes = keys.map(key => createHash('sha256').update(key).digest('hex'))
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    const active = await client.query('SELECT 1 FROM api_keys WHERE hash = ANY($1) AND revoked_at IS NULL', [hashes])
    return active.rowCount === keys.length
  } finally {
    await client.end()
  }
}

/** Runs one command of the operator command line and returns its JSON document. */
async function operator<T>({ databaseUrl, redisUrl, dataDir }: DemoStack, ...command: string[]): Promise<T> {
  const env = { ...process.env, DATABASE_URL: databaseUrl, REDIS_URL: redisUrl, DATA_DIR: dataDir }
  const options = { cwd: root, env, timeout: commandTimeoutMs }
  const { stdout } = await run(process.execPath, [join(root, 'api/operator.ts'), ...command, '--json'], options)
  return JSON.parse(stdout)
}
