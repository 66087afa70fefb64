import { createHash, randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hashPassword, verifyPassword } from 'better-auth/crypto'
import pg from 'pg'
import { newId } from '../shared/base/ids.ts'
import { step } from './progress.ts'
import { run } from './run.ts'

const root = join(import.meta.dirname, '..')
const commandTimeoutMs = 30_000
const demoCreditUsd = '25'

export type DemoStack = { databaseUrl: string; redisUrl: string; dataDir: string }
type DemoKeys = { liveKey: string; testKey: string }
/** `password` is null once the user has changed it. */
export type Demo = DemoKeys & { email: string; password: string | null }
type StoredSecrets = DemoKeys & { password?: string }

/** The file of the data directory with the secrets of the demo organisation. */
export const demoFile = 'demo.json'
const demoEmail = 'demo@headgate.local'
const passwordBytes = 12

/**
 * Creates a demo organisation with credits, a live key and a test key, and an operator user who owns it, once per database.
 * The secrets are stored in `<dataDir>/demo.json` (mode 0600), as the database has only their hashes. Throws an Error when a
 * command fails.
 */
export async function seedDemo(stack: DemoStack): Promise<Demo> {
  const file = join(stack.dataDir, demoFile)
  const saveSecrets = (stored: StoredSecrets) => writeFile(file, JSON.stringify(stored), { mode: 0o600 })
  let stored = await readSecrets(file)
  if (!stored || !(await areActive(stack.databaseUrl, [stored.liveKey, stored.testKey]))) {
    stored = await step('creating a demo organisation with keys', () => seedOrganisation(stack))
    await saveSecrets(stored)
  }
  const { liveKey, testKey, password = randomBytes(passwordBytes).toString('base64url') } = stored
  // Stored before it takes effect, so that an interrupted start leaves no user with an unknown password.
  await saveSecrets({ liveKey, testKey, password })
  const isCurrent = await seedPerson(stack.databaseUrl, testKey, password, stored.password === undefined)
  return { liveKey, testKey, email: demoEmail, password: isCurrent ? password : null }
}

async function seedOrganisation(stack: DemoStack): Promise<DemoKeys> {
  const { id } = await operator<{ id: string }>(stack, 'org', 'create', '--name', 'Demo')
  await operator(stack, 'credit', 'add', '--org', id, '--usd', demoCreditUsd, '--method', 'grant')
  const key = (environment: string) => {
    const flags = ['--org', id, '--env', environment, '--name', `Demo ${environment}`]
    return operator<{ key: string }>(stack, 'key', 'create', ...flags)
  }
  const live = await key('live')
  const test = await key('test')
  return { liveKey: live.key, testKey: test.key }
}

/** Creates the user as owner of the key's organisation. Returns false when the user has since changed the password. */
async function seedPerson(connectionString: string, key: string, password: string, isNew: boolean): Promise<boolean> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    const { rows: users } = await client.query<{ hash: string | null }>(
      `SELECT a.password AS hash FROM users u LEFT JOIN accounts a ON a.user_id = u.id AND a.provider_id = 'credential'
       WHERE u.email = $1`,
      [demoEmail],
    )
    const hash = users[0]?.hash
    if (users.length > 0 && !isNew) return typeof hash === 'string' && (await verifyPassword({ hash, password }))
    await client.query(
      `WITH person AS (
         INSERT INTO users (id, email, email_verified, name, operator) VALUES ($1, $2, true, 'Demo', true)
         ON CONFLICT (email) DO UPDATE SET email_verified = true, operator = true RETURNING id
       ), account AS (
         INSERT INTO accounts (id, user_id, account_id, provider_id, password)
         SELECT id, id, id, 'credential', $3 FROM person
         ON CONFLICT (provider_id, account_id) DO UPDATE SET password = excluded.password
       )
       INSERT INTO memberships (id, organisation_id, user_id, role)
       SELECT $4, k.organisation_id, p.id, 'owner' FROM person p, api_keys k WHERE k.hash = $5
       ON CONFLICT DO NOTHING`,
      [newId('user'), demoEmail, await hashPassword(password), newId('mem'), hashOf(key)],
    )
    return true
  } finally {
    await client.end()
  }
}

const hashOf = (key: string) => createHash('sha256').update(key).digest('hex')

async function readSecrets(file: string): Promise<StoredSecrets | null> {
  return readFile(file, 'utf8')
    .then(JSON.parse)
    .catch(() => null) // The first start.
}

/** Whether this database has the keys: DATABASE_URL may name another database than at the last start. */
async function areActive(connectionString: string, keys: string[]): Promise<boolean> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    const active = await client.query('SELECT 1 FROM api_keys WHERE hash = ANY($1) AND revoked_at IS NULL', [
      keys.map(hashOf),
    ])
    return active.rowCount === keys.length
  } finally {
    await client.end()
  }
}

/** Runs one command of the operator command line and returns its JSON document. */
async function operator<T>({ databaseUrl, redisUrl, dataDir }: DemoStack, ...command: string[]): Promise<T> {
  const env = { ...process.env, DATABASE_URL: databaseUrl, REDIS_URL: redisUrl, DATA_DIR: dataDir }
  const options = { cwd: root, env, timeout: commandTimeoutMs }
  const program = ['--import', './shared/base/code-cache.js', 'api/operator.ts']
  const { stdout } = await run(process.execPath, [...program, ...command, '--json'], options)
  return JSON.parse(stdout)
}
