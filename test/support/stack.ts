import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import pg from 'pg'
import { freePort } from '../../dev/ports.ts'
import { startPostgres } from '../../dev/postgres.ts'
import { startRedis } from '../../dev/redis.ts'

/** The migrated database that test/run.ts prepares and every fresh database is a copy of. */
export const templateDatabase = 'headgate_template'
/** Where the repository's own unpacked Redis server is kept, for all tests and the development stack. */
export const redisBinaryDir = join(import.meta.dirname, '../../.data/redis-bin')

/** All that processes of the product get of our own environment: where programs are, and what others compiled before. */
export const inherited: NodeJS.ProcessEnv = {
  PATH: process.env.PATH,
  HOME: process.env.HOME,
  NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
}

/**
 * Node's flags for processes that live for seconds: the database client is WebAssembly, and optimising it costs more than
 * it brings. The others keep an exit from hanging (`shared/base/code-cache.js`). What one process compiled is only read by those
 * with the same flags.
 */
export const shortLived = ['--liftoff-only', '--no-concurrent-sparkplug', '--no-maglev-build-code-on-background']

/** PostgreSQL: the data of tests need not survive a power failure. A killed server still finds all of it. */
export const neverWaitsForDisk = { fsync: 'off', full_page_writes: 'off' }

const sourceInUse = '55006'
const maxCopies = 50
const copyAgainAfterMs = 100
const redisDatabases = 255 // Number 0 holds the allotments.
const clusterReadyWithinMs = 30_000

/** SQL: sets the time by which months of the ledger close, in one database. */
export function setLedgerTime(iso: string): string {
  return `CREATE OR REPLACE FUNCTION ledger_now() RETURNS timestamptz LANGUAGE sql STABLE AS
    $$ SELECT '${iso}'::timestamptz $$`
}

/** A new migrated database, a copy of the template. `drop` closes whatever connections it still has. */
export async function freshDatabase(): Promise<{ url: string; drop(): Promise<void> }> {
  const serverUrl = given('TEST_DATABASE_URL')
  const name = `test_${randomBytes(8).toString('hex')}`
  for (let copies = 1; ; copies++) {
    try {
      await execute(serverUrl, `CREATE DATABASE ${name} TEMPLATE ${templateDatabase} STRATEGY FILE_COPY`)
      break
    } catch (error) {
      if ((error as pg.DatabaseError).code !== sourceInUse || copies === maxCopies) throw error
      await sleep(copyAgainAfterMs)
    }
  }
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return { url: url.href, drop: () => execute(serverUrl, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`) }
}

/**
 * An empty Redis database of the shared server, ours alone until `release`, across all test processes. Channels of
 * publish and subscribe are the server's, not the database's: tests that need their own take `privateRedis`.
 */
export async function freshRedis(): Promise<{ url: string; release(): Promise<void> }> {
  const serverUrl = given('TEST_REDIS_URL')
  const database = await withRedis(serverUrl, allot)
  const url = `${serverUrl}/${database}`
  await withRedis(url, redis => redis.flushdb())
  const release = async () => {
    await withRedis(url, redis => redis.flushdb())
    await withRedis(serverUrl, redis => redis.del(claim(database)))
  }
  return { url, release }
}

async function allot(redis: Redis): Promise<number> {
  for (let tries = 0; tries < redisDatabases; tries++) {
    const database = ((await redis.incr('next')) % redisDatabases) + 1
    if (await redis.setnx(claim(database), process.pid)) return database
  }
  throw new Error('every Redis database is in use: some tests do not release theirs')
}

function claim(database: number): string {
  return `claimed:${database}`
}

/** A server of one test's own, to be killed and restarted; its URL stays the same. */
export type PrivateServer = {
  url: string
  /** SIGKILL, as a crash. */
  kill(): Promise<void>
  /** Starts again on the same data, after stopping or after a kill. */
  restart(): Promise<void>
  /** Stops the server and removes its data. */
  stop(): Promise<void>
}

/**
 * Its own Redis. Every write is in its file before it is acknowledged, so that tests do not depend on the time of a kill.
 * It never waits for the disk: a killed server finds what it wrote, and a busy disk would be an outage of Redis.
 */
export async function privateRedis(furtherFlags: string[] = [], env: NodeJS.ProcessEnv = {}): Promise<PrivateServer> {
  const flags = ['--appendfsync', 'no', ...furtherFlags]
  return privateServer('redis', dataDir => startRedis({ dataDir, binaryDir: redisBinaryDir, flags, env }))
}

/** The options of a node of a Redis Cluster. A node that met no other does not know its address, without which clients skip it. */
export async function clusterFlags(): Promise<string[]> {
  return ['--cluster-enabled', 'yes', '--cluster-port', String(await freePort()), '--cluster-announce-ip', '127.0.0.1']
}

/** Its own Redis Cluster of one node, which has all slots and therefore refuses commands and scripts over several of them. */
export async function privateCluster(): Promise<PrivateServer> {
  const server = await privateRedis(await clusterFlags())
  await serveAllSlots(server)
  return server
}

/** Makes a node a whole cluster. */
export async function serveAllSlots({ url }: Pick<PrivateServer, 'url'>): Promise<void> {
  await withRedis(url, async redis => {
    await redis.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383')
    await clusterReady(redis)
  })
}

/** Waits until a node of a cluster sees all slots served. */
export async function clusterReady(redis: Redis): Promise<void> {
  const deadlineMs = Date.now() + clusterReadyWithinMs
  while (!String(await redis.call('CLUSTER', 'INFO')).includes('cluster_state:ok')) {
    if (Date.now() > deadlineMs) throw new Error('the cluster did not become ready')
    await sleep(20)
  }
}

/** Its own PostgreSQL, empty: `migrate` of dev/migrate.ts brings the tables. */
export async function privatePostgres(env: NodeJS.ProcessEnv = {}): Promise<PrivateServer> {
  return privateServer('postgres', dataDir => startPostgres({ dataDir, settings: neverWaitsForDisk, env }))
}

async function privateServer(
  name: string,
  start: (dataDir: string) => Promise<{ url: string; kill(): Promise<void>; stop(): Promise<void> }>,
): Promise<PrivateServer> {
  const dataDir = await mkdtemp(join(tmpdir(), `headgate-${name}-`))
  let server = await start(dataDir)
  const { url } = server
  return {
    url,
    kill: () => server.kill(),
    restart: async () => {
      await server.stop()
      server = await start(dataDir)
      if (server.url !== url) throw new Error(`the port of ${name} was taken while it was down`)
    },
    stop: async () => {
      await server.stop()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

function given(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set: run tests with \`npm test\` or \`node test/run.ts <file>\``)
  return value
}

async function execute(connectionString: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

export async function withRedis<T>(url: string, use: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(url)
  try {
    return await use(redis)
  } finally {
    redis.disconnect()
  }
}
