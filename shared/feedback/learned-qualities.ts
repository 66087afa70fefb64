import { LRUCache } from 'lru-cache'
import { upToEntries } from '../base/lru-limit.ts'
import { type Clock, elapsedMs, type MonotonicClock, type MonotonicMs } from '../base/time.ts'
import type { Database } from '../io/db.ts'
import type { Logger } from '../io/log.ts'
import type { Policy } from '../keys/policy.ts'
import { type CountedKey, readCounters } from './counters.ts'
import { offsetsOf, type QualityOffsets } from './offsets.ts'

const maxKeys = 20_000
/** Offsets move slowly: a key in use is read again at most this often. */
const freshMs = 60_000
/** Keys are collected for this long, to be read together. */
const collectMs = 100
const maxKeysPerRead = 200

type Deps = { db: Database; clock: Clock; monotonic: MonotonicClock; log: Logger; isOn: boolean }
type Known = { offsets: QualityOffsets; readAtMs: MonotonicMs }

/**
 * What feedback taught about models, per key. Requests only read memory: the first request of a key has no offsets, and they
 * are read in the background, for many keys at once.
 */
export class LearnedQualities {
  readonly #deps: Deps
  readonly #known = new LRUCache<string, Known>(upToEntries(maxKeys))
  readonly #wanted = new Map<string, CountedKey>()
  #timer: NodeJS.Timeout | null = null
  #closed = false

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** The offsets for a key, as last read; null while there are none, or where learning is off. */
  of(policy: Policy): QualityOffsets | null {
    if (!this.#deps.isOn || !policy.learning) return null
    const known = this.#known.get(policy.keyId)
    if (!known || elapsedMs(known.readAtMs, this.#deps.monotonic.now()) > freshMs) this.#want(policy)
    return known?.offsets ?? null
  }

  /** The current offsets for a key, for explanations; null where learning is off. Throws what PostgreSQL throws. */
  async read(policy: Policy): Promise<QualityOffsets | null> {
    if (!this.#deps.isOn || !policy.learning) return null
    await this.#readKeys([policy])
    return this.#known.get(policy.keyId)!.offsets
  }

  close(): void {
    this.#closed = true
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
  }

  #want({ keyId, organisationId, environment }: Policy): void {
    if (this.#closed || this.#wanted.size >= maxKeysPerRead) return
    this.#wanted.set(keyId, { keyId, organisationId, environment })
    this.#timer ??= setTimeout(() => void this.#readWanted(), collectMs).unref()
  }

  async #readWanted(): Promise<void> {
    const keys = [...this.#wanted.values()]
    try {
      await this.#readKeys(keys)
    } catch (error) {
      this.#deps.log.warn({ err: error }, 'cannot read what feedback taught; the previous offsets stay in use')
      for (const { keyId } of keys) this.#keep(keyId, this.#known.peek(keyId)?.offsets ?? new Map())
    }
    this.#wanted.clear()
    this.#timer = null
  }

  async #readKeys(keys: readonly CountedKey[]): Promise<void> {
    const counters = await readCounters(this.#deps.db, keys, this.#deps.clock.now())
    for (const [keyId, { own, shared }] of counters) this.#keep(keyId, offsetsOf(own, shared))
  }

  #keep(keyId: string, offsets: QualityOffsets): void {
    this.#known.set(keyId, { offsets, readAtMs: this.#deps.monotonic.now() })
  }
}
