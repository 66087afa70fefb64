import pg from 'pg'
import type { Database } from '../../shared/io/db.ts'

/**
 * A database handle whose raw queries are prepared statements of one connection: PostgreSQL parses and plans each once, which
 * takes most of the time of the ledger's check, and the tests of one gateway check its ledger many times.
 */
export class PreparingReader {
  readonly db: Database
  readonly #pool: pg.Pool
  readonly #names = new Map<string, string>()

  constructor(db: Database, url: string) {
    this.#pool = new pg.Pool({ connectionString: url, max: 1, idleTimeoutMillis: 0 })
    this.#pool.on('error', () => {}) // The next query opens another connection.
    this.db = new Proxy(db, {
      get: (target, name) =>
        name === '$queryRawUnsafe' ? (text: string) => this.#query(text) : Reflect.get(target, name, target),
    })
  }

  close(): Promise<void> {
    return this.#pool.end()
  }

  async #query(text: string): Promise<object[]> {
    const name = this.#names.get(text) ?? `query_${this.#names.size}`
    this.#names.set(text, name)
    return (await this.#pool.query({ name, text })).rows
  }
}
