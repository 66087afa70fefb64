import type { Pool } from 'pg'
import type { Prisma } from '../generated/prisma/client.ts'
import { openPool } from './postgres.ts'

/** Runs one statement of a transaction; gives its rows. */
export type RunSql = <Row extends object = object>(sql: Prisma.Sql) => Promise<Row[]>

const maxConnections = 4
/** Texts of megabytes take their time. */
const statementTimeoutMs = 30_000

/**
 * Postgres without Prisma between, for statements whose texts have megabytes: Prisma would take each apart and put it
 * together again. A few connections of its own, opened when they are used.
 */
export class Bulk {
  readonly #pool: Pool

  constructor(url: string) {
    this.#pool = openPool(url, { connections: maxConnections, statementTimeoutMs })
  }

  /** Runs a transaction: all of it or nothing. Throws what Postgres says; when that is nothing, it may have happened. */
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
