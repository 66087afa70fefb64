import { randomBytes } from 'node:crypto'
import type { Database } from '../io/db.ts'

const name = 'signing_secret'

/** The secret that signs addresses: `SIGNING_SECRET`, else one that the first process to need it leaves in the database. */
export class SigningSecret {
  readonly #db: Database
  #secret: Promise<string> | null

  constructor(db: Database, configured: string | null) {
    this.#db = db
    this.#secret = configured === null ? null : Promise.resolve(configured)
  }

  /** Throws what Postgres throws, and asks again the next time. */
  get(): Promise<string> {
    this.#secret ??= this.#load().catch(error => {
      this.#secret = null
      throw error
    })
    return this.#secret
  }

  async #load(): Promise<string> {
    const value = randomBytes(32).toString('base64url')
    await this.#db.setting.createMany({ data: { name, value }, skipDuplicates: true })
    const row = await this.#db.setting.findUniqueOrThrow({ where: { name } })
    return row.value
  }
}
