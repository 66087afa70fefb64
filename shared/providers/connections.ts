import { createHash } from 'node:crypto'
import type { Config } from '../base/config.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { ProviderRow } from '../catalog/schema.ts'
import { type Dispatcher, openPool } from '../io/http.ts'
import { protocols } from './protocols.ts'

/** An API key at a provider. `id` identifies it without revealing it. */
export type Credential = { id: string; secret: string }

/** A configured provider: its connection pool, its base URL and the path of that, and its API keys. */
export type Connection = {
  pool: Dispatcher
  baseUrl: string
  prefix: string
  credentials: Credential[]
  auth: ProviderRow['auth']
}

/** Maximum connections per process and provider. */
const connectionsPerProvider = 8_192

/** The connections to the configured providers, by provider name. A provider without a key is disabled. */
export class Connections {
  readonly #connections = new Map<string, Connection>()

  constructor({ providers }: Catalog, config: Config) {
    for (const row of providers.values()) {
      const settings = config.providers.get(row.name)
      // A provider that needs no key is enabled once its server's URL is configured.
      const isEnabled = row.auth === 'none' ? settings?.baseUrl : settings?.apiKeys.length
      if (!isEnabled || !protocols[row.protocol]) continue
      const base = new URL(settings!.baseUrl ?? row.base_url)
      this.#connections.set(row.name, {
        pool: openPool(base.origin, config.upstream, connectionsPerProvider),
        baseUrl: base.href.replace(/\/+$/, ''),
        prefix: base.pathname.replace(/\/+$/, ''),
        credentials: (settings!.apiKeys.length > 0 ? settings!.apiKeys : ['']).map(credentialOf),
        auth: row.auth,
      })
    }
  }

  find(provider: string): Connection | undefined {
    return this.#connections.get(provider)
  }

  /** The connection to a provider. Throws an Error if the provider is not configured. */
  get(provider: string): Connection {
    const connection = this.#connections.get(provider)
    if (!connection) throw new Error(`provider ${provider} is not configured`)
    return connection
  }

  /** Closes every connection and aborts exchanges in progress. */
  async close(): Promise<void> {
    await Promise.all(Array.from(this.#connections.values(), ({ pool }) => pool.destroy()))
  }
}

function credentialOf(secret: string): Credential {
  return { id: createHash('sha256').update(secret).digest('hex').slice(0, 12), secret }
}
