import { randomBytes } from 'node:crypto'
import type { Database } from '../io/db.ts'
import type { Sealer } from './sealer.ts'

const name = 'signing_secret'
const place = 'settings.signing_secret'

/**
 * The secret that signs addresses: `SIGNING_SECRET`, else one that the first process to need it leaves in the database, sealed
 * where there is a key to seal it with.
 */
export class SigningSecret {
  readonly #db: Database
  readonly #sealer: Sealer
  #secret: Promise<string> | null

  constructor(db: Database, configured: string | null, sealer: Sealer) {
    this.#db = db
    this.#sealer = sealer
    this.#secret = configured === null ? null : Promise.resolve(configured)
  }

  /** Throws what Postgres throws, and asks again the next time; an Error where it is sealed with an unknown key. */
  get(): Promise<string> {
    this.#secret ??= this.#load().catch(error => {
      this.#secret = null
      throw error
    })
    return this.#secret
  }

  async #load(): Promise<string> {
    const value = this.#sealer.seal(randomBytes(32).toString('base64url'), place)
    await this.#db.setting.createMany({ data: { name, value }, skipDuplicates: true })
    return (await resealSigningSecret(this.#db, this.#sealer)).secret
  }
}

/** The secret in the database, sealed with the current key unless it is already. Throws where there is none. */
export async function resealSigningSecret(
  db: Database,
  sealer: Sealer,
): Promise<{ secret: string; resealed: boolean }> {
  const row = await db.setting.findUniqueOrThrow({ where: { name } })
  const secret = sealer.open(row.value, place)
  if (sealer.isCurrent(row.value) || !sealer.encrypts) return { secret, resealed: false }
  const sealed = { value: sealer.seal(secret, place) }
  const { count } = await db.setting.updateMany({ where: { name, value: row.value }, data: sealed })
  return { secret, resealed: count === 1 }
}
