// The tests' runner: one PostgreSQL and one Redis in a fresh folder for all test files, a migrated template database,
// then AVA with the arguments of the command line. Everything is stopped and removed however the run ends.
import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { dieWithParent, endOf } from '../dev/daemon.ts'
import { buildDashboard } from '../dev/dashboard.ts'
import { migrate } from '../dev/migrate.ts'
import { startPostgres } from '../dev/postgres.ts'
import { startRedis } from '../dev/redis.ts'
import { redisBinaryDir, templateDatabase } from './support/stack.ts'

const root = join(import.meta.dirname, '..')
const failed = 1
const dataDir = await mkdtemp(join(tmpdir(), 'headgate-test-'))
const cleanups: (() => Promise<void>)[] = [() => rm(dataDir, { recursive: true, force: true })]
const aborted = Promise.withResolvers<number>()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => aborted.resolve(failed))

const exitCode = await Promise.race([runTests(process.argv.slice(2)), aborted.promise]).catch(error => {
  console.error(error)
  return failed
})
for (const cleanup of cleanups.reverse()) await cleanup().catch(console.error)
process.exit(exitCode)

async function runTests(args: string[]): Promise<number> {
  // Only speed: this data need not survive a power failure. A killed server still finds all of it.
  const postgres = await stoppedAtEnd(startPostgres({ dataDir, settings: { fsync: 'off', full_page_writes: 'off' } }))
  const redis = await stoppedAtEnd(startRedis({ dataDir, binaryDir: redisBinaryDir }))
  // Once, before several test files want the pages at the same time.
  await Promise.all([makeTemplate(postgres.url), buildDashboard()])
  const urls = { TEST_DATABASE_URL: postgres.url, TEST_REDIS_URL: redis.url }
  // What the tests leave behind goes with the folder. Every test file is a process: compiled once, the product is read by all.
  const env = { ...process.env, ...urls, TMPDIR: dataDir, NODE_COMPILE_CACHE: join(dataDir, 'compiled') }
  const ava = join(root, 'node_modules/ava/entrypoints/cli.mjs')
  // The database client is WebAssembly: in processes that live for seconds, optimising it costs more than it brings.
  const nodeArguments = '--node-arguments=--liftoff-only'
  const child = spawn(process.execPath, [ava, nodeArguments, ...args], {
    cwd: root,
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  dieWithParent(child, 'SIGKILL')
  const ended = endOf(child)
  cleanups.push(async () => {
    child.kill('SIGKILL')
    await ended
  })
  await ended
  return child.exitCode ?? failed
}

function stoppedAtEnd<T extends { stop(): Promise<void> }>(starting: Promise<T>): Promise<T> {
  cleanups.push(() =>
    starting.then(
      server => server.stop(),
      () => {}, // The run itself reports a failed start.
    ),
  )
  return starting
}

async function makeTemplate(serverUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl })
  await client.connect()
  await client.query(`CREATE DATABASE ${templateDatabase}`)
  await client.end()
  const url = new URL(serverUrl)
  url.pathname = `/${templateDatabase}`
  await migrate(url.href)
}
