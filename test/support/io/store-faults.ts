import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { chmod, mkdir, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import pg from 'pg'

/** A state of a store in which it is reachable and yet of no use; `end` makes it well again. */
export type StoreFault = { begin(): Promise<void>; end(): Promise<void> }

/** A fault of a server's processes. */
export type FrozenStore = StoreFault & { pids(): Promise<number[]> }

async function commands(url: string, ...list: string[][]): Promise<void> {
  const client = new Redis(url, { retryStrategy: null })
  try {
    for (const [name, ...args] of list) await client.call(name!, ...args)
  } finally {
    client.disconnect()
  }
}

const settings = (url: string, begin: string[][], end: string[][]): StoreFault => ({
  begin: () => commands(url, ...begin),
  end: () => commands(url, ...end),
})

/** The error codes of a Redis that is reachable but accepts no writes. */
export function redisFaults(url: string): Record<string, StoreFault> {
  const set = (name: string, value: string) => ['CONFIG', 'SET', name, value]
  const follow = ['REPLICAOF', '127.0.0.1', '1']
  const lead = ['REPLICAOF', 'NO', 'ONE']
  return {
    OOM: settings(url, [set('maxmemory', '1')], [set('maxmemory', '0')]),
    READONLY: settings(url, [follow], [lead]),
    MASTERDOWN: settings(
      url,
      [set('replica-serve-stale-data', 'no'), follow],
      [lead, set('replica-serve-stale-data', 'yes')],
    ),
    NOREPLICAS: settings(url, [set('min-replicas-to-write', '1')], [set('min-replicas-to-write', '0')]),
    MISCONF: { begin: () => spoilSnapshots(url), end: () => mendSnapshots(url) },
  }
}

/** A folder blocks the path of the snapshot, so that saving fails. */
async function spoilSnapshots(url: string): Promise<void> {
  await mkdir(join(await redisFolder(url), 'dump.rdb/full'), { recursive: true })
  await commands(url, ['CONFIG', 'SET', 'save', '3600 1000000'])
  await saved(url, 'err')
}

async function mendSnapshots(url: string): Promise<void> {
  await rm(join(await redisFolder(url), 'dump.rdb'), { recursive: true })
  await saved(url, 'ok')
  await commands(url, ['CONFIG', 'SET', 'save', ''])
}

async function redisFolder(url: string): Promise<string> {
  const client = new Redis(url)
  try {
    return ((await client.config('GET', 'dir')) as string[])[1]!
  } finally {
    client.disconnect()
  }
}

async function saved(url: string, status: string): Promise<void> {
  const client = new Redis(url)
  try {
    await client.bgsave().catch(() => {})
    for (let look = 0; look < 200; look++) {
      if ((await client.info('persistence')).includes(`rdb_last_bgsave_status:${status}`)) return
      await new Promise(resolve => setTimeout(resolve, 25))
    }
    throw new Error(`the snapshot did not end with ${status}`)
  } finally {
    client.disconnect()
  }
}

/** Runs statements, each on its own, as the server's owner. */
export async function sql<Row extends object = object>(url: string, ...statements: string[]): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {}) // It may be among those that are ended.
  await client.connect()
  let rows: Row[] = []
  try {
    for (const statement of statements) ({ rows } = await client.query<Row>(statement))
    return rows
  } finally {
    await client.end()
  }
}

/** As a replica that has not been promoted yet, for connections old and new. */
export function readOnlyPostgres(url: string): StoreFault {
  const reload = 'SELECT pg_reload_conf()'
  const owner = 'SET default_transaction_read_only = off'
  return {
    begin: async () => void (await sql(url, 'ALTER SYSTEM SET default_transaction_read_only = on', reload)),
    end: async () => void (await sql(url, owner, 'ALTER SYSTEM RESET default_transaction_read_only', reload)),
  }
}

/** Takes no connections to the database, and ends those that it has: during maintenance, or because it has too many. */
export function closedPostgres(url: string): StoreFault {
  const name = new URL(url).pathname.slice(1)
  const other = new URL(url)
  other.pathname = '/template1'
  const allow = (whether: boolean) => `ALTER DATABASE "${name}" ALLOW_CONNECTIONS ${whether}`
  const terminate = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`
  return {
    begin: async () => void (await sql(other.href, allow(false), terminate)),
    end: async () => void (await sql(other.href, allow(true))),
  }
}

/** Stops a server's processes as they are: its connections stay and nothing is answered. */
function frozen(pids: () => Promise<number[]>): FrozenStore {
  let stopped: number[] = []
  return {
    pids,
    async begin() {
      stopped = await pids()
      for (const pid of stopped) process.kill(pid, 'SIGSTOP')
    },
    async end() {
      for (const pid of stopped) process.kill(pid, 'SIGCONT')
    },
  }
}

export function frozenRedis(url: string): FrozenStore {
  return frozen(async () => {
    const client = new Redis(url)
    try {
      return [Number(/process_id:(\d+)/.exec(await client.info('server'))![1])]
    } finally {
      client.disconnect()
    }
  })
}

export function frozenPostgres(url: string): FrozenStore {
  return frozen(async () => {
    const [row] = await sql<{ folder: string }>(url, "SELECT current_setting('data_directory') AS folder")
    const first = Number(readFileSync(join(row!.folder, 'postmaster.pid'), 'utf8').split('\n')[0])
    return [first, ...childrenOf(first)]
  })
}

function childrenOf(parent: number): number[] {
  return globSync('/proc/[0-9]*/stat').flatMap(path => {
    try {
      const [, pid, ppid] = /^(\d+) \(.*\) \S (\d+)/s.exec(readFileSync(path, 'utf8'))!
      return Number(ppid) === parent ? [Number(pid)] : []
    } catch {
      return [] // It ended meanwhile.
    }
  })
}

/** A folder on a disk of 256 kB; where nothing may be mounted, one that cannot be written to. */
export function fullFolder(folder: string): StoreFault & { drop(): Promise<void> } {
  const isRoot = process.getuid?.() === 0
  return {
    async begin() {
      await mkdir(folder, { recursive: true })
      if (isRoot) execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', folder])
      else await chmod(folder, 0o500)
    },
    async end() {
      if (isRoot) execFileSync('umount', ['-l', folder])
      else await chmod(folder, 0o700)
    },
    drop: () => rmdir(folder).catch(() => {}),
  }
}
