import { existsSync } from 'node:fs'
import { chmod, chown, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { type PostgresServer, startPostgres } from '../../dev/postgres.ts'
import { postgresAccount } from '../../dev/postgres-account.ts'
import { run } from '../../dev/run.ts'
import { eventually } from './gateway.ts'

const copyOptions = { timeout: 120_000 }

/** A PostgreSQL that archives its write-ahead log, with backups of it: PostgreSQL's own procedure without further tools. */
export class ArchivedPostgres {
  server: PostgresServer
  readonly #folder: string

  private constructor(folder: string, server: PostgresServer) {
    this.#folder = folder
    this.server = server
  }

  static async start(folder: string): Promise<ArchivedPostgres> {
    const archive = join(folder, 'archive')
    await mkdir(archive, { recursive: true })
    await chmod(folder, 0o711)
    await chmod(archive, 0o777) // PostgreSQL runs under an account of its own.
    const settings = { archive_mode: 'on', archive_command: `test ! -f ${archive}/%f && cp %p ${archive}/%f` }
    return new ArchivedPostgres(folder, await startPostgres({ dataDir: join(folder, 'live'), settings }))
  }

  /** Copies the data folder of the running server. */
  async takeBaseBackup(): Promise<void> {
    await withClient(this.server.url, async client => {
      await client.query(`SELECT pg_backup_start('base', true)`)
      const backup = join(this.#folder, 'base')
      await run('cp', ['-a', join(this.#folder, 'live/postgres'), backup], copyOptions)
      // The log comes from the archive; the lock file is that of the running server.
      await run('sh', ['-c', 'rm -rf "$1"/pg_wal/* "$1"/postmaster.pid', 'sh', backup], copyOptions)
      const { rows } = await client.query('SELECT labelfile FROM pg_backup_stop(true)')
      await writeAsServer(join(backup, 'backup_label'), rows[0].labelfile)
    })
  }

  /** Waits until everything that was committed so far is in the archive. */
  async archiveAll(): Promise<void> {
    const name = await withClient(this.server.url, async client => {
      const { rows } = await client.query('SELECT pg_walfile_name(pg_switch_wal()) AS name')
      return rows[0].name as string
    })
    await eventually(() => existsSync(join(this.#folder, 'archive', name)), 'the log is archived', 60_000)
  }

  /** Ends the server at once and removes its data. */
  async lose(): Promise<void> {
    await this.server.kill()
    await rm(join(this.#folder, 'live/postgres'), { recursive: true, force: true })
  }

  /** Starts a server from the base backup and the archived log. */
  async restore(): Promise<void> {
    const data = join(this.#folder, 'live/postgres')
    await run('cp', ['-a', join(this.#folder, 'base'), data], copyOptions)
    await writeAsServer(join(data, 'recovery.signal'), '')
    const settings = {
      restore_command: `cp ${join(this.#folder, 'archive')}/%f %p`,
      recovery_target_timeline: 'latest',
    }
    this.server = await startPostgres({ dataDir: join(this.#folder, 'live'), settings })
    const isPromoted = () =>
      withClient(this.server.url, async client => {
        const { rows } = await client.query('SELECT NOT pg_is_in_recovery() AS promoted')
        return rows[0].promoted as boolean
      })
    await eventually(isPromoted, 'the recovery is over', 60_000)
  }
}

/** Writes a file that belongs to the account of the server. */
async function writeAsServer(path: string, text: string): Promise<void> {
  await writeFile(path, text)
  const account = await postgresAccount()
  if (account) await chown(path, account.uid, account.gid)
}

async function withClient<T>(connectionString: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    return await use(client)
  } finally {
    await client.end()
  }
}
