import { LRUCache } from 'lru-cache'
import { type Dispatcher, Pool } from 'undici'
import { type CheckedUrl, pinnedTo } from './safe-url.ts'

const mostPools = 500
const idleMs = 60_000
/** Shorter than what servers keep a connection open for: a request on one that just closes is lost. */
const keepAliveMs = 4_000

/**
 * Kept-alive connections to hosts that callers named. Each pool connects to the checked addresses only, so a name that
 * resolves to others by then gets a pool of its own. Pools that are idle for a minute, or one too many, are closed.
 */
export class PinnedPools {
  readonly #pools = new LRUCache<string, Pool>({
    max: mostPools,
    ttl: idleMs,
    ttlAutopurge: true,
    updateAgeOnGet: true,
    // What is under way in it still comes to its end; one that was destroyed is closed already.
    dispose: pool => void pool.close().catch(() => {}),
  })
  readonly #connectTimeoutMs: number

  constructor(connectTimeoutMs: number) {
    this.#connectTimeoutMs = connectTimeoutMs
  }

  /** The pool of a URL's origin at these addresses. */
  of({ url, addresses }: CheckedUrl): Dispatcher {
    const key = `${url.origin} ${addresses.map(({ address }) => address).join(' ')}`
    const known = this.#pools.get(key)
    if (known) return known
    const connect = { lookup: pinnedTo(addresses), timeout: this.#connectTimeoutMs, noDelay: true }
    const pool = new Pool(url.origin, { allowH2: false, connections: null, keepAliveTimeout: keepAliveMs, connect })
    this.#pools.set(key, pool)
    return pool
  }

  /** Closes every connection. What is under way in them fails. */
  async close(): Promise<void> {
    const pools = [...this.#pools.values()]
    await Promise.all(pools.map(pool => pool.destroy()))
    this.#pools.clear()
  }
}
