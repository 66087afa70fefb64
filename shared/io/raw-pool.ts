import type { Pool } from 'pg'
import type { Prisma } from '../generated/prisma/client.ts'
import { openPool, type PoolOptions } from './postgres.ts'

/** Runs one statement of a transaction; returns its rows. */
export type RunSql = <Row extends object = object>(sql: Prisma.Sql) => Promise<Row[]>

const maxConnections = 4
/** Statements of megabytes are slow. */
const statementTimeoutMs = 30_000

/**
 * A raw pg pool, bypassing Prisma, for statements of megabytes, which Prisma would parse and rebuild. It has a few
 * connections, opened on first use.
 */
export class RawPool {
  readonly #pool: Pool

  constructor(url: string, options: Pick<PoolOptions, 'pooler' | 'connectTimeoutMs'> = {}) {
    this.#pool = openPool(url, { ...options, connections: maxConnections, statementTimeoutMs })
  }

  /**
   * Runs a transaction. Throws what Postgres reports; if the connection failed, the transaction may have been
   * committed.
   */
  async transaction<T>(work: (run: RunSql) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect()
    let broken = false
    try {
      await client.query('BEGIN')
      const run: RunSql = async ({ text, values }) => (await client.query(text, values)).rows
      const result = await work(run)
      await client.query('COMMIT')
      return result
    } catch (error) {
      await client.query('ROLLBACK').catch(() => {
        broken = true
      })
      throw error
    } finally {
      client.release(broken)
    }
  }

  close(): Promise<void> {
    return this.#pool.end()
  }
}
