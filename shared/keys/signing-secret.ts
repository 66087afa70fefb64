import { randomBytes } from 'node:crypto'
import { loadOnce } from '../base/load-once.ts'
import type { Database } from '../io/db.ts'
import type { Sealer } from '../io/sealer.ts'

const name = 'signing_secret'
const place = 'settings.signing_secret'

/**
 * The secrets that sign URLs, cookies and reasoning state: those of `SIGNING_SECRET`, of which the first signs and all verify,
 * otherwise one that the first process to need it stores in the database, encrypted when a key is configured.
 */
export class SigningSecret {
  readonly #db: Database
  readonly #sealer: Sealer
  /** The secret that signs, once it is known: the hot path need not wait for it. */
  current: string | null
  /** Secrets that only verify, while `SIGNING_SECRET` is rotated. */
  readonly older: readonly string[]
  /**
   * The secret that signs. Throws what Postgres throws, and retries on the next call; throws an Error when it is sealed with an
   * unknown key.
   */
  readonly get: () => Promise<string>

  constructor(db: Database, [configured, ...older]: readonly string[], sealer: Sealer) {
    this.#db = db
    this.#sealer = sealer
    this.current = configured ?? null
    this.older = older
    this.get = loadOnce(async () => configured ?? this.#load())
  }

  /** All secrets that verify, the one that signs first. Throws as `get` does. */
  async all(): Promise<readonly string[]> {
    return [await this.get(), ...this.older]
  }

  async #load(): Promise<string> {
    const value = this.#sealer.seal(randomBytes(32).toString('base64url'), place)
    await this.#db.setting.createMany({ data: { name, value }, skipDuplicates: true })
    this.current = (await resealSigningSecret(this.#db, this.#sealer)).secret
    return this.current
  }
}

/** Reads the secret from the database and seals it with the current key if it is not. Throws when there is none. */
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
