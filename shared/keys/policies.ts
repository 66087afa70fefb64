import { randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../base/errors.ts'
import type { Database } from '../io/db.ts'
import { unavailable } from '../io/outage.ts'
import type { Redis } from '../io/redis.ts'
import { type Limits, type Policy, policyOf, type Scope } from './policy.ts'

/**
 * What one request knows of its key; brought up to date in place when it turns out to be old. `fresh` is '' for a
 * remembered policy, else the generation token under which it was just read. `scope` is what the request needs.
 */
export type Known = { policy: Policy; fresh: string; scope: Scope | null }
/** The word of the admission script that the policy it was given does not hold; to be read under this generation token. */
type Stale = { stale: string }

/** Several times what a commit can take: when it expires, whoever set it has committed or never will. */
const tombstoneSeconds = 300
const generationSeconds = 3_600
const mostRemembered = 20_000
const mostRememberedSlugs = 500_000
const mostRounds = 3

/**
 * Reads policies for requests. A process remembers policies, but acts on a remembered one only after Redis confirmed its
 * version (`keyversion:<hash>`; the admission script does so itself). A change of a key follows three steps: tombstone and
 * a new generation, commit in Postgres, new generation without the tombstone. While a tombstone stands, or after a crash
 * between the steps, nothing is confirmed and every request reads Postgres.
 */
export class Policies {
  readonly #db: Database
  readonly #redis: Redis
  readonly #testLimits: Limits
  readonly #remembered = new LRUCache<string, Policy>({
    max: mostRemembered,
    maxSize: mostRememberedSlugs,
    sizeCalculation: ({ allowlist }) => 1 + (allowlist?.size ?? 0),
  })
  readonly #reading = new Map<string, Promise<Policy>>()

  constructor(db: Database, redis: Redis, testLimits: Limits) {
    this.#db = db
    this.#redis = redis
    this.#testLimits = testLimits
    // A Redis that comes back may have lost its last writes, a revocation's among them.
    redis.on('close', () => this.#remembered.clear())
  }

  /** The policy for a secret's hash, remembered or fresh, for a request that needs `scope`. Throws 401 for an unknown or rolled-away secret, 503. */
  async find(hash: string, scope: Scope | null): Promise<Known> {
    return this.recall(hash, scope) ?? this.#read(hash, scope)
  }

  /** The remembered policy for a secret's hash, without a promise; null where there is none. */
  recall(hash: string, scope: Scope | null): Known | null {
    const policy = this.#remembered.get(hash)
    return policy ? { policy, fresh: '', scope } : null
  }

  /**
   * The policy of a key as Postgres has it now, whichever secret it has by now: for work that goes on after its request. It
   * confirms no version to the admission. Throws 401 for a key that is gone, 503.
   */
  async ofKey(keyId: string, scope: Scope | null): Promise<Known> {
    const row = await this.#db.apiKey.findUnique({ where: { id: keyId } }).catch(error => {
      throw unavailable(error)
    })
    if (!row) throw new GatewayError('revoked_api_key', 'The API key of this work no longer exists.')
    return { policy: policyOf(row, this.#testLimits), fresh: 'unconfirmed', scope }
  }

  /** Makes sure that a policy still holds, without the admission script; brings it up to date where it does not. Throws 401, 503. */
  async confirm(known: Known): Promise<Known> {
    if (known.fresh !== '') return known
    const { hash, version } = known.policy
    const current = await this.#redis.get(`keyversion:${hash}`).catch(error => {
      throw unavailable(error)
    })
    return current === String(version) ? known : this.#refresh(known)
  }

  /** Those of remembered policies whose version Redis does not confirm, by one look: for work that goes on. Throws what Redis throws. */
  async unconfirmed(knowns: readonly Known[]): Promise<Known[]> {
    const hashes = [...new Set(knowns.map(({ policy }) => policy.hash))]
    if (hashes.length === 0) return []
    const found = await this.#redis.mget(hashes.map(hash => `keyversion:${hash}`))
    const versions = new Map(hashes.map((hash, i) => [hash, found[i]]))
    return knowns.filter(({ policy }) => versions.get(policy.hash) !== String(policy.version))
  }

  /**
   * What `decision` makes of the policy in force. It is asked again when it answers `Stale`, and when it throws under a
   * remembered policy that turns out to be old: a remembered policy never refuses by itself.
   */
  async decide<T extends object>(known: Known, decision: (known: Known) => T | Stale | Promise<T | Stale>): Promise<T> {
    for (let round = 0; round < mostRounds; round++) {
      const { version } = known.policy
      try {
        const decided = await decision(known)
        if (!('stale' in decided)) return decided
        await this.#refresh(known, decided.stale)
      } catch (error) {
        await this.confirm(known)
        if (known.policy.version === version) throw error
      }
    }
    throw new GatewayError('service_unavailable', 'This key is changing right now. Try again.', {
      headers: { 'retry-after': '1' },
    })
  }

  /** Runs a change of a key so that no request arriving after its end is served under the old state, on any process. */
  async changing<T>(hash: string, commit: () => Promise<T>): Promise<T> {
    const token = randomUUID()
    // A set, so that of two changes at a time each takes away its own tombstone only.
    const tombstone = `keytombstone:${hash}`
    const renewed = () =>
      this.#redis.multi().set(`keygeneration:${hash}`, randomUUID(), 'EX', generationSeconds).del(`keyversion:${hash}`)
    await renewed()
      .sadd(tombstone, token)
      .expire(tombstone, tombstoneSeconds)
      .exec()
      .catch(error => {
        throw unavailable(error)
      })
    // A commit that failed may still happen: then, as after a crash, the tombstone is left to expire.
    const result = await commit()
    this.#remembered.delete(hash)
    await renewed()
      .srem(tombstone, token)
      .exec()
      .catch(() => {})
    return result
  }

  async #refresh(known: Known, generation?: string): Promise<Known> {
    return Object.assign(known, await this.#read(known.policy.hash, known.scope, generation))
  }

  /** The policy as Postgres has it now. `generation` is the token Redis gave before this call, if it already did. */
  async #read(hash: string, scope: Scope | null, generation?: string): Promise<Known> {
    try {
      const fresh = generation ?? (await this.#redis.get(`keygeneration:${hash}`)) ?? '-'
      return { policy: await this.#readOnce(hash, fresh), fresh, scope }
    } catch (error) {
      throw error instanceof GatewayError ? error : unavailable(error)
    }
  }

  /** Requests that hold the same generation token share one look: a change that was answered before any of them came has changed the token. */
  #readOnce(hash: string, generation: string): Promise<Policy> {
    const name = `${hash} ${generation}`
    const reading = this.#reading.get(name) ?? this.#readRow(hash).finally(() => this.#reading.delete(name))
    this.#reading.set(name, reading)
    return reading
  }

  async #readRow(hash: string): Promise<Policy> {
    const row = await this.#db.apiKey.findUnique({ where: { hash } })
    if (!row) {
      this.#remembered.delete(hash)
      throw await this.#unknown(hash)
    }
    const policy = policyOf(row, this.#testLimits)
    this.#remembered.set(hash, policy)
    return policy
  }

  async #unknown(hash: string): Promise<GatewayError> {
    const retired = await this.#db.retiredSecret.findUnique({ where: { hash } })
    return retired
      ? new GatewayError('revoked_api_key', 'This API key was replaced by a newer secret. Use the new one.')
      : new GatewayError('invalid_api_key', 'This API key does not exist. Check it, or create a new one.')
  }
}
