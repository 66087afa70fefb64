import { randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../base/errors.ts'
import type { Database } from '../io/db.ts'
import type { Redis } from '../io/redis.ts'
import { type Policy, policyOf } from './policy.ts'

/** A policy and how sure we are of it: `fresh` is '' for a remembered one, else the generation token under which it was just read. */
export type Known = { policy: Policy; fresh: string }

const tombstoneSeconds = 60
const generationSeconds = 3_600

/**
 * Reads policies for requests. A process remembers policies, but acts on a remembered one only after Redis confirmed its
 * version (`keyversion:<hash>`; the admission script does so itself). A change of a key follows three steps: tombstone and
 * a new generation, commit in Postgres, new generation without the tombstone. While the tombstone stands, or after a
 * crash between the steps, nothing is confirmed and every request reads Postgres.
 */
export class Policies {
  readonly #db: Database
  readonly #redis: Redis
  readonly #remembered = new LRUCache<string, Policy>({ max: 20_000 })

  constructor(db: Database, redis: Redis) {
    this.#db = db
    this.#redis = redis
  }

  /** The policy for a secret's hash, remembered or fresh. Throws 401 for an unknown or rolled-away secret. */
  async find(hash: string): Promise<Known> {
    const policy = this.#remembered.get(hash)
    return policy ? { policy, fresh: '' } : this.read(hash)
  }

  /** The policy as Postgres has it now. `generation` is the token Redis gave before this call, if it already did. */
  async read(hash: string, generation?: string): Promise<Known> {
    try {
      const fresh = generation ?? (await this.#redis.get(`keygeneration:${hash}`)) ?? '-'
      const row = await this.#db.apiKey.findUnique({ where: { hash } })
      if (!row) throw await this.#unknown(hash)
      const policy = policyOf(row)
      this.#remembered.set(hash, policy)
      return { policy, fresh }
    } catch (error) {
      if (error instanceof GatewayError) throw error
      throw new GatewayError('service_unavailable', 'The gateway cannot reach its store. Try again shortly.', {
        headers: { 'retry-after': '1' },
        cause: error,
      })
    }
  }

  /** The same policy if it still holds, else the one Postgres has now. For decisions taken without the admission script. */
  async confirm(known: Known): Promise<Known> {
    if (known.fresh !== '') return known
    const { hash, version } = known.policy
    let current: string | null
    try {
      current = await this.#redis.get(`keyversion:${hash}`)
    } catch (cause) {
      throw new GatewayError('service_unavailable', 'The gateway cannot reach its store. Try again shortly.', {
        headers: { 'retry-after': '1' },
        cause,
      })
    }
    return current === String(version) ? known : this.read(hash)
  }

  /** Runs a change of a key so that no request arriving after its end is served under the old state, on any process. */
  async changing<T>(hash: string, commit: () => Promise<T>): Promise<T> {
    const generation = () => this.#redis.set(`keygeneration:${hash}`, randomUUID(), 'EX', generationSeconds)
    await this.#redis.set(`keytombstone:${hash}`, '1', 'EX', tombstoneSeconds)
    await generation()
    await this.#redis.del(`keyversion:${hash}`)
    try {
      return await commit()
    } finally {
      this.#remembered.delete(hash)
      // Left standing on failure, the tombstone only costs Postgres reads until it expires.
      await generation()
        .then(() => this.#redis.del(`keytombstone:${hash}`))
        .catch(() => {})
    }
  }

  async #unknown(hash: string): Promise<GatewayError> {
    const retired = await this.#db.retiredSecret.findUnique({ where: { hash } })
    return retired
      ? new GatewayError('revoked_api_key', 'This API key was replaced by a newer secret. Use the new one.')
      : new GatewayError('invalid_api_key', 'This API key does not exist. Check it, or create a new one.')
  }
}

/** Throws the 401 that a revoked or expired key gets. */
export function assertUsable(policy: Policy, nowMs: number): void {
  if (policy.revoked) throw new GatewayError('revoked_api_key', 'This API key was revoked. Create a new one.')
  if (policy.expiresAtMs !== null && policy.expiresAtMs <= nowMs) {
    throw new GatewayError('expired_api_key', 'This API key has expired. Create a new one.')
  }
}
