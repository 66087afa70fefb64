import pg from 'pg'
import type { Prisma } from '../generated/prisma/client.ts'

/** Runs one statement of a transaction; gives its rows. */
export type RunSql = <Row extends object = object>(sql: Prisma.Sql) => Promise<Row[]>

const mostConnections = 4

/**
 * Postgres without Prisma between, for statements whose texts have megabytes: Prisma would take each apart and put it
 * together again. A few connections of its own, opened when they are used.
 */
export class Bulk {
  readonly #pool: pg.Pool

  constructor(url: string) {
    this.#pool = new pg.Pool({
      connectionString: url,
      max: mostConnections,
      connectionTimeoutMillis: 5_000,
      idleTimeoutMillis: 30_000,
      statement_timeout: 30_000,
      // A connection that fell silent would else be waited for until the process ends.
      query_timeout: 40_000,
    })
    this.#pool.on('error', ignore) // An idle connection that broke is replaced.
  }

  /** Runs a transaction: all of it or nothing. Throws what Postgres says; when that is nothing, it may have happened. */
  async transaction<T>(work: (run: RunSql) => Promise<T>): Promise<T> {
    const client = await this.#pool.connect()
    // Whatever breaks the connection fails the statement under way, too.
    client.on('error', ignore)
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
      client.off('error', ignore)
      client.release(broken)
    }
  }

  close(): Promise<void> {
    return this.#pool.end()
  }
}

function ignore(): void {}
