import { createHash } from 'node:crypto'
import type { Config } from '../base/config.ts'
import { requestDeadlineMs } from '../base/deadlines.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Server } from '../catalog/overrides.ts'
import type { ProviderRow } from '../catalog/schema.ts'
import { type Dispatcher, openPool } from '../io/http.ts'
import { protocols } from './protocols.ts'

/** An API key at a provider. `id` identifies it without revealing it; `origin` says where the operator configured it. */
export type Credential = { id: string; origin: string; secret: string }

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
  /** The servers that were added at run time. */
  readonly #servers = new Map<string, { key: string; connection: Connection }>()
  /** Connections to removed servers, for requests that had chosen them. */
  readonly #retired = new Map<string, Connection>()
  readonly #config: Config

  constructor({ providers }: Pick<Catalog, 'providers'>, config: Config) {
    this.#config = config
    for (const row of providers.values()) {
      const settings = config.providers.get(row.name)
      // A provider that needs no key is enabled once its server's URL is configured.
      const isEnabled = row.auth === 'none' ? settings?.baseUrl : settings?.apiKeys.length
      if (!isEnabled || !protocols[row.protocol]) continue
      const origin = `${row.name.toUpperCase()}_API_KEY`
      this.#connections.set(row.name, this.#open(row, settings!.baseUrl ?? row.base_url, settings!.apiKeys, origin))
    }
  }

  find(provider: string): Connection | undefined {
    return this.#connections.get(provider) ?? this.#servers.get(provider)?.connection
  }

  /** The connection to a provider. Throws an Error if the provider is not configured. */
  get(provider: string): Connection {
    const connection = this.find(provider) ?? this.#retired.get(provider)
    if (!connection) throw new Error(`provider ${provider} is not configured`)
    return connection
  }

  /** Replaces the servers that were added at run time. Connections to unchanged ones stay; those to others end with their calls. */
  setServers(servers: readonly Server[]): void {
    const wanted = new Map(servers.map(server => [server.row.name, server]))
    const keyOf = ({ row, apiKey }: Server) => JSON.stringify([row.base_url, apiKey])
    for (const [name, { key, connection }] of this.#servers) {
      const server = wanted.get(name)
      if (server && keyOf(server) === key) continue
      this.#servers.delete(name)
      this.#retire(name, connection)
    }
    for (const [name, server] of wanted) {
      if (this.find(name)) continue
      const { row, apiKey } = server
      const connection = this.#open(row, row.base_url, apiKey === null ? [] : [apiKey], `server ${name}`)
      this.#servers.set(name, { key: keyOf(server), connection })
    }
  }

  #open(row: ProviderRow, baseUrl: string, apiKeys: readonly string[], origin: string): Connection {
    const base = new URL(baseUrl)
    return {
      pool: openPool(base.origin, this.#config.upstream, connectionsPerProvider),
      baseUrl: base.href.replace(/\/+$/, ''),
      prefix: base.pathname.replace(/\/+$/, ''),
      credentials: (apiKeys.length > 0 ? apiKeys : ['']).map((secret, position) => ({
        id: createHash('sha256').update(secret).digest('hex').slice(0, 12),
        origin: apiKeys.length > 1 ? `${origin} (${position + 1} of ${apiKeys.length})` : origin,
        secret,
      })),
      auth: row.auth,
    }
  }

  /** Keeps a connection as long as a request may need it. */
  #retire(name: string, connection: Connection): void {
    this.#retired.set(name, connection)
    const timer = setTimeout(() => {
      if (this.#retired.get(name) === connection) this.#retired.delete(name)
      // Destroys it once its last call has ended.
      void connection.pool.close()
    }, requestDeadlineMs(this.#config))
    timer.unref()
  }

  /** Closes every connection and aborts exchanges in progress. */
  async close(): Promise<void> {
    const servers = Array.from(this.#servers.values(), ({ connection }) => connection)
    const all = [...this.#connections.values(), ...servers, ...this.#retired.values()]
    await Promise.all(all.map(({ pool }) => pool.destroy()))
  }
}
