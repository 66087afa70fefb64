import { randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../base/errors.ts'
import { secretReplaced } from '../base/key-refusals.ts'
import { upToEntries } from '../base/lru-limit.ts'
import type { Clock } from '../base/time.ts'
import type { Database } from '../io/db.ts'
import { storeUnavailable } from '../io/outage.ts'
import { onConnectionLost, type Redis } from '../io/redis.ts'
import { type Shard, type Shards, shardsOf } from '../io/redis-shards.ts'
import { readOwnKeys } from './own-keys.ts'
import {
  authorise,
  type Limits,
  type MonthSpend,
  type Policy,
  type PolicyRow,
  policyOf,
  policyRow,
  type ReplacedSecret,
  type Scope,
} from './policy.ts'
import type { PolicyReader } from './policy-reader.ts'
import { findReplacedSecret, overlapEnd } from './replaced-secrets.ts'

/** In place of a read token: the policy was just read, but not under a token that Redis can confirm. */
const unconfirmed = 'unconfirmed'
/** In place of a read token: the row is read for its organisation alone. */
const organisationOnly = 'any'

/** The key of a request with its policy, which is updated in place when it is stale. */
export class ResolvedKey {
  policy: Policy
  /** The token under which the policy was just read from PostgreSQL; '' for a cached policy. */
  readToken: string
  /** The scope that the request needs. */
  readonly scope: Scope | null

  constructor(policy: Policy, readToken: string, scope: Scope | null) {
    this.policy = policy
    this.readToken = readToken
    this.scope = scope
  }

  /** True while the policy is a cached one, which must not be used until Redis has confirmed its version. */
  get isCached(): boolean {
    return this.readToken === ''
  }

  /** Marks the policy as cached. Call it when time has passed since the policy was read. */
  forget(): void {
    this.readToken = ''
  }
}

/** The admission script's verdict on an outdated policy: read it again under this token. */
type Stale = { stale: string }

/** Several times the longest duration of a commit: when a tombstone expires, its transaction has ended. */
const tombstoneSeconds = 300
const readTokenSeconds = 3_600
const maxCached = 20_000
/** Slugs of an allowlist that count as one more cached policy. */
const slugsPerEntry = 25
const maxRounds = 3
/** Keys whose read tokens one Redis transaction renews. */
const maxRenewals = 500

type RedisTransaction = ReturnType<Redis['multi']>

type PoliciesOptions = {
  db: Database
  reader: PolicyReader
  redis: Redis
  clock: Clock
  /** The limits of test keys. */
  testLimits: Limits
  /** The number since which key versions in Redis count (see `StoreGenerations`). */
  validSince: (shard: Shard) => number
}

/**
 * Reads policies for requests. Each process caches policies, and uses a cached one only after Redis has confirmed its version
 * (`keyversion:<hash>`; the admission script does so itself). A change of a key takes three steps: set a tombstone and a new
 * read token, commit in Postgres, set another read token and remove the tombstone. While a tombstone exists, or after a crash
 * between the steps, no version is confirmed and every request reads Postgres. The policy of a replaced secret that still works is
 * cached under that secret, but confirmed under the current one: a change of the key ends both.
 */
export class Policies {
  readonly #db: Database
  readonly #reader: PolicyReader
  readonly #redis: Redis
  readonly #clock: Clock
  readonly #shards: Shards
  readonly #testLimits: Limits
  readonly #validSince: (shard: Shard) => number
  readonly #cache = new LRUCache<string, Policy>({
    ...upToEntries(maxCached),
    sizeCalculation: ({ allowlist }) => Math.ceil((1 + (allowlist?.size ?? 0)) / slugsPerEntry),
  })
  readonly #reads = new Map<string, Promise<Policy>>()

  constructor({ db, reader, redis, clock, testLimits, validSince }: PoliciesOptions) {
    this.#db = db
    this.#reader = reader
    this.#redis = redis
    this.#clock = clock
    this.#shards = shardsOf(redis)
    this.#testLimits = testLimits
    this.#validSince = validSince
    // After a reconnect, Redis may have lost its last writes, including those of a revocation.
    onConnectionLost(redis, () => this.#cache.clear())
  }

  /** Finds the policy for a secret's hash, from the cache or the stores, for a request that needs `scope`. Throws 401 for an unknown or replaced secret, 503. */
  async find(hash: string, scope: Scope | null): Promise<ResolvedKey> {
    return this.findCached(hash, scope) ?? this.#read(hash, scope)
  }

  /** Finds the cached policy for a secret's hash, synchronously; null when there is none. */
  findCached(hash: string, scope: Scope | null): ResolvedKey | null {
    const policy = this.#cache.get(hash)
    return policy ? new ResolvedKey(policy, '', scope) : null
  }

  /**
   * Reads the current policy of a key from Postgres, independent of its secret: for work that continues after its request. It
   * does not confirm the version for the admission script. Throws 401 for a deleted key, 503.
   */
  async findByKeyId(keyId: string, scope: Scope | null): Promise<ResolvedKey> {
    const row = await this.#db.apiKey.findUnique({ where: { id: keyId }, ...policyRow }).catch(error => {
      throw storeUnavailable(error)
    })
    if (!row) throw new GatewayError('revoked_api_key', 'The API key of this work no longer exists.')
    const policy = await this.#policyOf(row).catch(error => {
      throw storeUnavailable(error)
    })
    return new ResolvedKey(policy, unconfirmed, scope)
  }

  /** Confirms a cached policy with Redis, without the admission script, and refreshes it when it is outdated. Throws 401, 503. */
  async confirm(key: ResolvedKey): Promise<ResolvedKey> {
    if (!key.isCached) return key
    const { hash, organisationId } = key.policy
    const { tag } = this.#shards.of(organisationId)
    const current = await this.#redis.get(`${tag}keyversion:${hash}`).catch(error => {
      throw storeUnavailable(error)
    })
    return current === this.#confirmedVersion(key.policy) ? key : this.#refresh(key)
  }

  /**
   * Returns the keys whose policy version Redis does not confirm, with one command per shard: for running work. Throws what Redis
   * throws.
   */
  async findUnconfirmed(keys: readonly ResolvedKey[]): Promise<ResolvedKey[]> {
    const versions = new Map<string, string | null>()
    const read = async ({ tag }: Shard, own: readonly ResolvedKey[]) => {
      const hashes = [...new Set(own.map(({ policy }) => policy.hash))]
      const found = await this.#redis.mget(hashes.map(hash => `${tag}keyversion:${hash}`))
      for (const [i, hash] of hashes.entries()) versions.set(hash, found[i]!)
    }
    const groups = this.#shards.group(keys, ({ policy }) => policy.organisationId)
    await Promise.all(Array.from(groups, ([shard, own]) => read(shard, own)))
    return keys.filter(({ policy }) => versions.get(policy.hash) !== this.#confirmedVersion(policy))
  }

  /** What the admission script writes for a version; since a store was restored, with the number that shows it. */
  #confirmedVersion({ version, organisationId }: Policy): string {
    const validSince = this.#validSince(this.#shards.of(organisationId))
    return validSince > 1 ? `${version}@${validSince}` : String(version)
  }

  /**
   * Runs `decision` under the key's current policy if that policy allows the request. Runs it again with a refreshed policy when
   * it returns `Stale`, and when it throws under a cached policy that is outdated: a refusal is final only under a confirmed
   * policy. Throws 401 and 403 for a key that does not allow the request, 503, and what `decision` throws.
   */
  async decide<T extends object>(
    key: ResolvedKey,
    decision: (policy: Policy, readToken: string) => T | Stale | Promise<T | Stale>,
  ): Promise<T> {
    for (let round = 0; round < maxRounds; round++) {
      const { policy, readToken } = key
      try {
        authorise(policy, key.scope, this.#clock.now())
        const result = await decision(policy, readToken)
        if (!('stale' in result)) return result
        await this.#refresh(key, result.stale)
      } catch (error) {
        await this.confirm(key)
        if (key.policy.version === policy.version) throw error
      }
    }
    throw new GatewayError('service_unavailable', 'This key is changing right now. Try again.', {
      headers: { 'retry-after': '1' },
    })
  }

  /** Commits a change of a key so that no process serves a request that arrives afterwards under the old policy. */
  applyChange<T>(
    { hash, organisationId }: { hash: string; organisationId: string },
    commit: () => Promise<T>,
  ): Promise<T> {
    return this.applyChanges({ organisationId, hashes: [hash] }, commit)
  }

  /**
   * As `applyChange`, for a change of several keys of an organisation. `changed`: the keys that the commit changed as well, such
   * as new ones.
   */
  async applyChanges<T>(
    { organisationId, hashes }: { organisationId: string; hashes: readonly string[] },
    commit: () => Promise<T>,
    changed: (result: T) => readonly string[] = () => [],
  ): Promise<T> {
    const token = randomUUID()
    const { tag } = this.#shards.of(organisationId)
    // A set, so that each of two concurrent changes removes only its own tombstone.
    const tombstoneOf = (hash: string) => `${tag}keytombstone:${hash}`
    await this.#renewReadTokens({ tag, hashes }, (step, hash) =>
      step.sadd(tombstoneOf(hash), token).expire(tombstoneOf(hash), tombstoneSeconds),
    ).catch(error => {
      throw storeUnavailable(error)
    })
    // A commit that threw may still take effect. As after a crash, the tombstone then stays until it expires.
    const result = await commit()
    const all = [...new Set([...hashes, ...changed(result)])]
    for (const hash of all) this.#cache.delete(hash)
    const step = (transaction: RedisTransaction, hash: string) => transaction.srem(tombstoneOf(hash), token)
    await this.#renewReadTokens({ tag, hashes: all }, step).catch(() => {})
    return result
  }

  /**
   * Commits a change of a setting that keys take from their organisation; `commit` increments their versions and returns their
   * hashes. Requests that arrive afterwards are served under the new policies.
   */
  async applyDefault<T extends { hashes: string[] }>(organisationId: string, commit: () => Promise<T>): Promise<T> {
    const { tag } = this.#shards.of(organisationId)
    const result = await commit()
    for (const hash of result.hashes) this.#cache.delete(hash)
    await this.#renewReadTokens({ tag, hashes: result.hashes }).catch(error => {
      throw storeUnavailable(error)
    })
    return result
  }

  /** Sets new read tokens and deletes the confirmed versions of keys, each with a further `step` in one transaction. */
  async #renewReadTokens(
    { tag, hashes }: { tag: string; hashes: readonly string[] },
    step: (transaction: RedisTransaction, hash: string) => RedisTransaction = transaction => transaction,
  ): Promise<void> {
    for (let first = 0; first < hashes.length; first += maxRenewals) {
      const transaction = this.#redis.multi()
      for (const hash of hashes.slice(first, first + maxRenewals)) {
        const [tokenKey, versionKey] = [`${tag}keygeneration:${hash}`, `${tag}keyversion:${hash}`]
        transaction.set(tokenKey, randomUUID(), 'EX', readTokenSeconds).del(versionKey)
        step(transaction, hash)
      }
      await transaction.exec()
    }
  }

  async #refresh(key: ResolvedKey, readToken?: string): Promise<ResolvedKey> {
    const current = await this.#read(key.policy.secretHash, key.scope, readToken)
    key.policy = current.policy
    key.readToken = current.readToken
    return key
  }

  /** Reads the current policy from Postgres. `readToken` is the token from Redis, if the caller has one already. */
  async #read(hash: string, scope: Scope | null, readToken?: string): Promise<ResolvedKey> {
    try {
      const current = readToken ?? (await this.#fetchReadToken(hash)) ?? '-'
      return new ResolvedKey(await this.#readOnce(hash, current), current, scope)
    } catch (error) {
      throw error instanceof GatewayError ? error : storeUnavailable(error)
    }
  }

  /** The read token of a key is in the shard of its organisation. Throws 401 for an unknown or replaced secret. */
  async #fetchReadToken(hash: string): Promise<string | null> {
    const { all } = this.#shards
    const { tag } = all.length === 1 ? all[0]! : this.#shards.of(await this.#findOrganisation(hash))
    return this.#redis.get(`${tag}keygeneration:${hash}`)
  }

  /** The organisation of a secret, which never changes. */
  async #findOrganisation(hash: string): Promise<string> {
    const policy = this.#cache.get(hash) ?? (await this.#readOnce(hash, organisationOnly))
    return policy.organisationId
  }

  /** Coalesces concurrent reads under the same read token: a change completed before one of the requests arrived would have changed the token. */
  #readOnce(hash: string, readToken: string): Promise<Policy> {
    const name = `${hash} ${readToken}`
    const read = this.#reads.get(name) ?? this.#readRow(hash).finally(() => this.#reads.delete(name))
    this.#reads.set(name, read)
    return read
  }

  async #readRow(hash: string): Promise<Policy> {
    const read = await this.#reader.read(hash)
    if (!read) this.#cache.delete(hash)
    const policy = read ? await this.#policyOf(read.row, null, read.spend) : await this.#readReplaced(hash)
    // The policy's own text of the hash, so that it is in memory once.
    this.#cache.set(policy.secretHash, policy)
    return policy
  }

  /** The policy for a secret that is no key's current one. Whether its overlap is over, `authorise` decides. */
  async #readReplaced(hash: string): Promise<Policy> {
    const secret = await findReplacedSecret(this.#db, hash)
    if (!secret)
      throw new GatewayError('invalid_api_key', 'This API key does not exist. Check it, or create a new one.')
    const expires = overlapEnd(secret, secret.key)
    if (!expires) throw secretReplaced()
    return this.#policyOf(secret.key, { hash, expiresAtMs: expires.getTime() })
  }

  async #policyOf(
    row: PolicyRow,
    replaced: ReplacedSecret | null = null,
    monthSpend: MonthSpend | null = null,
  ): Promise<Policy> {
    const ownKeys = row.ownKeys === null ? null : await readOwnKeys(this.#db, row)
    return policyOf(row, this.#testLimits, { replaced, ownKeys, monthSpend })
  }
}
