// The tests' runner: one PostgreSQL and one Redis in a fresh folder for all test files, a migrated template database,
// then AVA with the arguments of the command line, which may name groups (test/groups.ts). Without a file it runs all
// groups and all files of no group. With `--checks` it lints and type-checks while it prepares, and runs no test if one
// fails. Everything is stopped and removed however the run ends.
import { type SpawnOptions, spawn } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { buildPages } from '../dev/build-pages.ts'
import { dieWithParent, endOf } from '../dev/daemon.ts'
import { migrate } from '../dev/migrate.ts'
import { startPostgres } from '../dev/postgres.ts'
import { signalProcess } from '../dev/processes.ts'
import { startRedis } from '../dev/redis.ts'
import { openDatabase } from '../shared/io/db.ts'
import { maintainPartitions } from '../shared/wallet/partitions.ts'
import { avaArguments, opensDocumentation, writeEntries } from './groups.ts'
import { makeScratchDir } from './support/scratch.ts'
import { neverWaitsForDisk, redisBinaryDir, setLedgerTime, shortLived, templateDatabase } from './support/stack.ts'

const root = join(import.meta.dirname, '..')
const failed = 1
const createPartitionsWithinMs = 30_000
/**
 * Node's flags for AVA's processes. Most of what tests allocate dies young: a large nursery is collected less often. There are more
 * processes than processors, so collecting in several threads only costs more: a tenth of the CPU time.
 */
const forTests = [...shortLived, '--min-semi-space-size=64', '--max-semi-space-size=64', '--single-threaded-gc']
const dataDir = await makeScratchDir()
const cleanups: (() => Promise<void>)[] = [() => rm(dataDir, { recursive: true, force: true })]
const aborted = Promise.withResolvers<number>()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => aborted.resolve(failed))

const args = process.argv.slice(2)
const hasChecks = args.includes('--checks')
const forAva = avaArguments(args.filter(arg => arg !== '--checks'))
const exitCode = await Promise.race([runTests(forAva), aborted.promise]).catch(error => {
  console.error(error)
  return failed
})
for (const cleanup of cleanups.reverse()) await cleanup().catch(console.error)
process.exit(exitCode)

async function runTests(args: string[]): Promise<number> {
  // Servers have the time zone of the machine on which they were created: nothing may depend on it.
  const settings = {
    ...neverWaitsForDisk,
    max_connections: '400',
    timezone: 'America/Los_Angeles',
    // Databases of seconds, on a server that nothing kills: neither is worth it.
    autovacuum: 'off',
    synchronous_commit: 'off',
    wal_level: 'minimal',
    max_wal_senders: '0',
  }
  const postgres = await stoppedAtEnd(startPostgres({ dataDir, settings }))
  const redis = await stoppedAtEnd(startRedis({ dataDir, binaryDir: redisBinaryDir, flags: ['--appendonly', 'no'] }))
  const urls = { TEST_DATABASE_URL: postgres.url, TEST_REDIS_URL: redis.url }
  // What the tests leave behind goes with the folder.
  const env = { ...process.env, ...urls, TMPDIR: dataDir, NODE_COMPILE_CACHE: join(dataDir, 'compiled') }
  // Once, before several test files want the pages or the compiled product at the same time.
  const building = buildPages({ documentation: opensDocumentation(args) })
  const preparing = [makeTemplate(postgres.url), building, compileProduct(env), writeEntries()]
  const [checked] = await Promise.all([hasChecks ? check() : 0, ...preparing])
  if (checked !== 0) return checked
  const ava = join(root, 'node_modules/ava/entrypoints/cli.mjs')
  return runProgram(process.execPath, [...shortLived, ava, `--node-arguments=${forTests.join(' ')}`, ...args], env)
}

/** Fills the compile cache: a process writes there what it compiled only when it exits by itself, and tests kill many. */
async function compileProduct(env: NodeJS.ProcessEnv): Promise<void> {
  const modules = ['api/serve.ts', 'api/operator/main.ts', 'workers/work.ts'].map(path => join(root, path))
  const script = `await Promise.all(${JSON.stringify(modules)}.map(path => import(path)));process.exit()`
  await runProgram(process.execPath, [...shortLived, '--input-type=module', '--eval', script], env)
}

/** Lints and type-checks, which both say themselves what is wrong; gives the exit code. */
async function check(): Promise<number> {
  const scripts = ['lint', 'typecheck']
  return Math.max(...(await Promise.all(scripts.map(script => runProgram('npm', ['run', '-s', script], process.env)))))
}

/** Runs a program to its end, which is also ours; gives its exit code. */
async function runProgram(file: string, args: string[], env: NodeJS.ProcessEnv): Promise<number> {
  // Its own process group, with the processes that it starts: AVA's workers outlive an AVA that was killed.
  const options = { cwd: root, env, detached: true, stdio: ['ignore', 'inherit', 'inherit'] } satisfies SpawnOptions
  const child = spawn(file, args, options)
  dieWithParent(child, 'SIGKILL')
  const ended = endOf(child)
  cleanups.push(async () => {
    if (child.pid !== undefined) signalProcess(-child.pid, 'SIGKILL')
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
  await makePartitions(url.href)
  await keepMonthsOpen(url.href)
}

/** Tests have clocks of their own: for those, no month of the ledger closes by the time of the server, unless one sets it. */
async function keepMonthsOpen(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  await client.query(setLedgerTime('-infinity'))
  await client.end()
}

/** Creates the partitions of the request log that each gateway would create in its copy of the database. */
async function makePartitions(databaseUrl: string): Promise<void> {
  const db = openDatabase(databaseUrl, { connections: 1, statementTimeoutMs: createPartitionsWithinMs })
  try {
    await maintainPartitions(db, Date.now(), 1) // There is none to drop.
  } finally {
    await db.$disconnect()
  }
}
