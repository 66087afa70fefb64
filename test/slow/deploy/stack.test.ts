import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { stripVTControlCharacters } from 'node:util'
import { Redis } from 'ioredis'
import pg from 'pg'
import { dieWithParent } from '../../../dev/daemon.ts'
import { loopback, onFreePort } from '../../../dev/ports.ts'
import { startPostgres } from '../../../dev/postgres.ts'
import { readable } from '../../../dev/readable-log.ts'
import { startRedis } from '../../../dev/redis.ts'
import {
  freshDatabase,
  freshRedis,
  inherited,
  privatePostgres,
  privateRedis,
  redisBinaryDir,
} from '../../support/stack.ts'
import { test } from '../../support/test.ts'

async function query(connectionString: string, statement: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString })
  client.on('error', () => {}) // The server may be killed while we are connected.
  await client.connect()
  try {
    return (await client.query({ text: statement, rowMode: 'array' })).rows.flat()
  } finally {
    await client.end()
  }
}

async function redis(url: string, ...command: [string, ...string[]]): Promise<unknown> {
  const client = new Redis(url)
  try {
    return await client.call(...command)
  } finally {
    client.disconnect()
  }
}

test('1 with every fault of the configuration before a development stack starts anything', async t => {
  const dataDir = await mkdtemp(join(tmpdir(), 'headgate-faults-'))
  t.teardown(() => rm(dataDir, { recursive: true, force: true }))
  const env = { ...inherited, DATA_DIR: dataDir, PORT: 'x', LOG_LEVEL: 'loud', PUBLIC_URL: 'nowhere' }
  const child = spawn(process.execPath, ['dev/main.ts'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const [[code], said, faults] = await Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)])
  t.is(code, 1)
  t.regex(said, /^headgate: starting in [^\n]+; the first start takes about a minute\n$/)
  t.regex(
    faults,
    /^headgate: nothing is started: the configuration has faults\n {2}PORT: .*\n {2}PUBLIC_URL: .*\n {2}LOG_LEVEL: .*\n$/,
  )
  t.true((await readdir(dataDir)).every(name => name.startsWith('dev.lock')))
})

test('a JSON log is text on a terminal: time, level, fields, errors with their causes', t => {
  const line = {
    level: 50,
    time: '2026-01-31T12:00:00.123Z',
    process: 'web',
    pid: 7,
    provider: 'openai',
    status: 401,
    err: { type: 'ProviderError', message: 'no', stack: 'x\n    at send (file.ts:1)', cause: { message: 'why' } },
    key: null,
    msg: 'the provider refuses our API key',
  }
  t.is(
    stripVTControlCharacters(readable(JSON.stringify(line))),
    [
      '12:00:00.123 ERROR web the provider refuses our API key provider=openai status=401',
      '    ProviderError: no',
      '    at send (file.ts:1)',
      '    caused by Error: why',
    ].join('\n'),
  )
  for (const plain of ['Error: not JSON', '{"a":1}', '{ broken']) t.is(readable(plain), plain)
})

test('independent: two fresh databases share no tables', async t => {
  const [one, two] = await Promise.all([freshDatabase(), freshDatabase()])
  t.teardown(() => Promise.all([one.drop(), two.drop()]))
  await query(one.url, 'CREATE TABLE note AS SELECT 7 AS value')
  t.deepEqual(await query(one.url, 'SELECT value FROM note'), [7])
  await t.throwsAsync(query(two.url, 'SELECT value FROM note'), { message: /relation "note" does not exist/ })
})

test('migrated: a fresh database has every migration of the template', async t => {
  const database = await freshDatabase()
  t.teardown(database.drop)
  const [unfinished, finished] = await query(
    database.url,
    'SELECT count(*) FILTER (WHERE finished_at IS NULL)::int, count(finished_at)::int FROM _prisma_migrations',
  )
  t.is(unfinished, 0)
  t.true((finished as number) > 0)
})

test('dropped: a fresh database goes with its open connections', async t => {
  const database = await freshDatabase()
  const client = new pg.Client({ connectionString: database.url })
  client.on('error', () => {})
  await client.connect()
  await database.drop()
  await t.throwsAsync(query(database.url, 'SELECT 1'), { message: /does not exist/ })
})

test('independent: fresh Redis databases are empty, many at once, and cleared at release', async t => {
  const databases = await Promise.all(Array.from({ length: 20 }, () => freshRedis()))
  t.is(new Set(databases.map(database => database.url)).size, 20)
  await Promise.all(databases.map(({ url }) => redis(url, 'SET', 'key', url)))
  for (const { url } of databases) t.is(await redis(url, 'GET', 'key'), url)
  await Promise.all(databases.map(database => database.release()))
  t.is(await redis(databases[0]!.url, 'DBSIZE'), 0)
})

test('restarted: Redis killed with SIGKILL keeps acknowledged writes, at the same URL', async t => {
  const server = await privateRedis()
  t.teardown(server.stop)
  const client = new Redis(server.url, { retryStrategy: null })
  client.on('error', () => {})
  const lost = new Promise<void>(resolve => client.once('end', resolve))
  await Promise.all(Array.from({ length: 1000 }, (_, n) => client.rpush('list', n)))
  await server.kill()
  await lost
  await server.restart()
  t.is(await redis(server.url, 'LLEN', 'list'), 1000)
  await server.restart()
  t.is(await redis(server.url, 'LLEN', 'list'), 1000)
})

test('restarted: PostgreSQL killed with SIGKILL keeps committed rows, at the same URL', async t => {
  const server = await privatePostgres()
  t.teardown(server.stop)
  await query(server.url, 'CREATE TABLE note AS SELECT generate_series(1, 1000) AS value')
  const connected = new pg.Client({ connectionString: server.url })
  connected.on('error', () => {})
  await connected.connect()
  const lost = new Promise<void>(resolve => connected.once('end', resolve))
  await server.kill()
  await lost
  await server.restart()
  t.deepEqual(await query(server.url, 'SELECT count(*)::int FROM note'), [1000])
  await server.restart()
  t.deepEqual(await query(server.url, 'SELECT count(*)::int FROM note'), [1000])
})

test('private: the servers listen on loopback only, want a password, and never evict', async t => {
  const server = await privatePostgres()
  const cache = await privateRedis()
  t.teardown(() => Promise.all([server.stop(), cache.stop()]))
  t.deepEqual(await query(server.url, 'SHOW listen_addresses'), ['127.0.0.1'])
  const stranger = new URL(server.url)
  stranger.password = 'guess'
  await t.throwsAsync(query(stranger.href, 'SELECT 1'), { message: /password authentication failed/ })
  t.deepEqual(await redis(cache.url, 'CONFIG', 'GET', 'maxmemory-policy'), ['maxmemory-policy', 'noeviction'])
  t.deepEqual(await redis(cache.url, 'CONFIG', 'GET', 'bind'), ['bind', '127.0.0.1'])
})

test('started on another port: the free one was taken by another process before the server could listen', async t => {
  const ports: number[] = []
  const listenOn = async (port: number) => {
    const server = createServer().listen(port, loopback())
    await once(server, 'listening')
    t.teardown(() => server.close())
  }
  const chosen = await onFreePort(undefined, async port => {
    ports.push(port)
    if (ports.length === 1) await listenOn(port)
    await listenOn(port)
    return port
  })
  t.is(ports.length, 2)
  t.is(ports[1], chosen)
  const broken = async (): Promise<number> => {
    throw new Error('no such file')
  }
  await t.throwsAsync(onFreePort(undefined, broken), { message: 'no such file' })
})

// A process that starts both servers, prints their URLs and the PostgreSQL server's process id, and never stops them.
const holder = `
  const { startPostgres } = await import(process.argv[1] + '/postgres.ts')
  const { startRedis } = await import(process.argv[1] + '/redis.ts')
  const postgres = await startPostgres({ dataDir: process.argv[2] })
  const redis = await startRedis({ dataDir: process.argv[2], binaryDir: process.argv[3] })
  console.log(JSON.stringify({ postgres: postgres.url, redis: redis.url }))
  setInterval(() => {}, 60_000)
`

test('started again: the servers of a killed process are found with their data and stopped', async t => {
  const dataDir = await mkdtemp(join(tmpdir(), 'headgate-orphan-'))
  t.teardown(() => rm(dataDir, { recursive: true, force: true }))
  const args = ['--input-type=module', '-e', holder, join(import.meta.dirname, '../../../dev'), dataDir, redisBinaryDir]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] })
  dieWithParent(child, 'SIGKILL')
  const [line] = await once(createInterface(child.stdout), 'line')
  const urls = JSON.parse(line)
  await query(urls.postgres, 'CREATE TABLE note AS SELECT 7 AS value')
  await redis(urls.redis, 'SET', 'key', 'kept')
  child.kill('SIGKILL')
  await once(child, 'exit')

  const postgres = await startPostgres({ dataDir })
  t.teardown(postgres.stop)
  const cache = await startRedis({ dataDir, binaryDir: redisBinaryDir })
  t.teardown(cache.stop)
  t.deepEqual(await query(postgres.url, 'SELECT value FROM note'), [7])
  t.is(await redis(cache.url, 'GET', 'key'), 'kept')
})

test("started again: a lock file that names someone else's process does not stop PostgreSQL", async t => {
  const dataDir = await mkdtemp(join(tmpdir(), 'headgate-lock-'))
  t.teardown(() => rm(dataDir, { recursive: true, force: true }))
  const first = await startPostgres({ dataDir })
  const lockFile = join(dataDir, 'postgres/postmaster.pid')
  const lock = await readFile(lockFile, 'utf8')
  await first.kill()
  await writeFile(lockFile, lock.replace(/^\d+/, String(process.pid)))

  const second = await startPostgres({ dataDir })
  t.teardown(second.stop)
  t.deepEqual(await query(second.url, 'SELECT 1'), [1])
})
