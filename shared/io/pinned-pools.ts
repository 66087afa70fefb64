import { LRUCache } from 'lru-cache'
import { type Dispatcher, Pool } from 'undici'
import { noProxies, type Proxies } from '../base/proxies.ts'
import { type CheckedUrl, pinnedConnect } from './safe-url.ts'

const maxPools = 500
const idleMs = 60_000
/** Shorter than the idle timeout of servers: a request on a connection that is just closing is lost. */
const keepAliveMs = 4_000

/**
 * Keep-alive connection pools for hosts that callers named. Each pool connects to the checked addresses only, so a name
 * that later resolves to others gets a separate pool. Pools are closed after a minute idle, or when there are too
 * many.
 */
export class PinnedPools {
  readonly #pools = new LRUCache<string, Pool>({
    max: maxPools,
    ttl: idleMs,
    ttlAutopurge: true,
    updateAgeOnGet: true,
    // Running requests still complete; a destroyed pool is already closed.
    dispose: pool => void pool.close().catch(() => {}),
  })
  readonly #connectTimeoutMs: number
  readonly #proxies: Proxies

  constructor(connectTimeoutMs: number, proxies: Proxies = noProxies) {
    this.#connectTimeoutMs = connectTimeoutMs
    this.#proxies = proxies
  }

  /** Returns the pool of a URL's origin at these addresses. */
  get(checked: CheckedUrl): Dispatcher {
    const { url, addresses } = checked
    const key = `${url.origin} ${addresses.map(({ address }) => address).join(' ')}`
    const known = this.#pools.get(key)
    if (known) return known
    const connect = pinnedConnect(checked, this.#proxies, this.#connectTimeoutMs)
    const pool = new Pool(url.origin, { allowH2: false, connections: null, keepAliveTimeout: keepAliveMs, connect })
    this.#pools.set(key, pool)
    return pool
  }

  /** Closes every connection. Running requests fail. */
  async close(): Promise<void> {
    const pools = [...this.#pools.values()]
    await Promise.all(pools.map(pool => pool.destroy()))
    this.#pools.clear()
  }
}
