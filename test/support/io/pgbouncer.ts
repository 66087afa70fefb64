import { chmod, chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startDaemon } from '../../../dev/daemon.ts'
import { libraryEnvironment, missingPackages, unpacked } from '../../../dev/debian.ts'
import { onFreePort } from '../../../dev/ports.ts'
import { asAccount, postgresAccount } from '../../../dev/postgres-account.ts'
import { run } from '../../../dev/run.ts'

const directory = join(import.meta.dirname, '../../../.data/pgbouncer-bin')
const own = ['pgbouncer', 'libc-ares2', 'libevent-2.1-7']

export type Pooler = {
  /** The address of the same database through the pooler. */
  url: string
  stop(): Promise<void>
}

/**
 * Starts a PgBouncer in transaction mode in front of a database, with so few server connections that transactions of
 * several clients take turns on each.
 */
export async function startPgBouncer(databaseUrl: string, serverConnections = 4): Promise<Pooler> {
  const { file, env } = await unpacked({
    directory,
    packages: async () => (await missingPackages(own)).filter(name => own.includes(name)),
    prepare: async () => {},
    find,
  })
  const folder = await mkdtemp(join(tmpdir(), 'headgate-pgbouncer-'))
  const { hostname, port: serverPort, username, password, pathname } = new URL(databaseUrl)
  const account = await postgresAccount()
  const users = join(folder, 'users.txt')
  await writeFile(users, `"${username}" "${decodeURIComponent(password)}"\n`)
  const daemon = await onFreePort(undefined, async port => {
    const settings = {
      listen_addr: '127.0.0.1',
      listen_port: port,
      unix_socket_dir: '',
      auth_type: 'scram-sha-256',
      auth_file: users,
      pool_mode: 'transaction',
      default_pool_size: serverConnections,
      max_client_conn: 500,
    }
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`)
    const configuration = join(folder, 'pgbouncer.ini')
    const database = `* = host=${hostname} port=${serverPort}`
    await writeFile(configuration, ['[databases]', database, '[pgbouncer]', ...lines, ''].join('\n'))
    if (account) for (const path of [folder, users, configuration]) await chown(path, account.uid, account.gid)
    await chmod(folder, 0o755)
    const { command, args, spawn } = await asAccount(account, file, [configuration], [configuration])
    const url = new URL(databaseUrl)
    url.port = String(port)
    const logFile = join(folder, 'pgbouncer.log')
    const started = await startDaemon({
      name: 'PgBouncer',
      command,
      args,
      spawn: { ...spawn, env },
      logFile,
      stopSignal: 'SIGINT',
      isReady: () => answers(url.href),
    })
    return { ...started, url: url.href }
  })
  return {
    url: daemon.url.replace(/\/[^/]*$/, pathname),
    stop: async () => {
      await daemon.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function find(folder: string): Promise<{ file: string; env: NodeJS.ProcessEnv } | null> {
  const installed = { file: 'pgbouncer', env: process.env }
  const found = { file: join(folder, 'usr/sbin/pgbouncer'), env: await libraryEnvironment(folder) }
  for (const { file, env } of [found, installed]) {
    const runs = await run(file, ['--version'], { env }).then(
      () => true,
      () => false,
    )
    if (runs) return { file, env }
  }
  return null
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1_000 })
  client.on('error', () => {})
  return client.connect().then(
    () => client.end().then(() => true),
    () => false,
  )
}
