import { createHash, createHmac } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Config, ProviderSettings } from '../base/config.ts'
import { requestDeadlineMs } from '../base/deadlines.ts'
import { directConnection, proxyFor } from '../base/proxies.ts'
import type { Clock } from '../base/time.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Server } from '../catalog/overrides.ts'
import { settingsOf, valueFor } from '../catalog/regions.ts'
import type { ProviderRow } from '../catalog/schema.ts'
import {
  type Dispatcher,
  type Exchange,
  exchange,
  type OutgoingRequest,
  openPool,
  type ResponseSink,
  type Timeouts,
} from '../io/http.ts'
import type { Connection, Credential } from './access.ts'
import type { Target } from './contract.ts'
import type { Health } from './health.ts'
import type { Identity } from './identities/identity.ts'
import { openIdentity } from './identities/open-identity.ts'
import { protocols } from './protocols.ts'

/** The identities that send tokens. */
const hasTokens: ReadonlySet<string> = new Set(['entra', 'google'])
/** Maximum connections per process and provider. */
const connectionsPerProvider = 8_192
const maxFormerKeys = 20
/** Resources of organisations at clouds, to which connections are kept. */
const maxResources = 500

/**
 * The connections to the configured providers, by provider name. A provider without a key is disabled, except one that knows the
 * gateway's identity and whose regions or base URL are configured.
 */
export class Connections {
  readonly #connections = new Map<string, Connection>()
  /** The connections that the environment configures, with its API keys. */
  readonly #configured = new Map<string, Connection>()
  /** The providers of the files. */
  readonly #rows: readonly ProviderRow[]
  /** The API keys that were added at run time, by the provider that uses them. */
  readonly #keys = new Map<string, readonly string[]>()
  /** The servers that were added at run time. */
  readonly #servers = new Map<string, { key: string; connection: Connection }>()
  /** Connections to removed servers, for requests that had chosen them. */
  readonly #retired = new Map<string, Connection>()
  /** Connections to providers for which the operator has no key; bounded by the catalog. */
  readonly #keyless = new Map<string, Connection>()
  /** Connections to resources of organisations, by their base URLs. Those that are dropped end with their calls. */
  readonly #resources = new LRUCache<string, Connection>({
    max: maxResources,
    dispose: ({ pool }) => void pool.close(),
  })
  readonly #config: Config
  readonly #clock: Clock
  /** The identities whose tokens are valid in all regions, by kind and credentials. */
  readonly #identities = new Map<string, Identity>()

  constructor({ providers }: Pick<Catalog, 'providers'>, config: Config, clock: Clock) {
    this.#config = config
    this.#clock = clock
    this.#rows = [...providers.values()]
    for (const row of this.#rows) {
      const settings = settingsOf(config.providers, row)
      if (!settings || !isEnabled(row, settings) || !protocols[row.protocol]) continue
      const usesIdentity = row.identity !== undefined && settings.apiKeys.length === 0
      const credentials = usesIdentity
        ? [this.#identify(row, settings)]
        : credentialsOf(settings.apiKeys, settings.apiKeyOrigin)
      const connection = this.#openConfigured(row, settings, credentials)
      if (connection) this.#configured.set(row.name, connection)
    }
    for (const [name, connection] of this.#configured) this.#connections.set(name, connection)
  }

  /** The connection to a provider of the files; null while its region is not configured. */
  #openConfigured(row: ProviderRow, settings: ProviderSettings | undefined, credentials: Credential[]) {
    // The row of a region has its own base URL, which follows from the settings already.
    const baseUrl = row.region === undefined ? (settings?.baseUrl ?? row.base_url) : row.base_url
    return baseUrl.includes('{') ? null : this.#open(row, baseUrl, credentials, settings?.proxy)
  }

  find(provider: string): Connection | undefined {
    return this.#connections.get(provider) ?? this.#servers.get(provider)?.connection
  }

  /**
   * The connection that own keys of organisations use: the pool and the base URL of a provider, which needs no keys of the operator's.
   * Null if its region is not configured.
   */
  base(row: ProviderRow): Connection | null {
    const known = this.find(row.name) ?? this.#keyless.get(row.name)
    if (known) return known
    const settings = settingsOf(this.#config.providers, row)
    const baseUrl = row.region === undefined ? (settings?.baseUrl ?? row.base_url) : row.base_url
    if (baseUrl.includes('{') || !protocols[row.protocol]) return null
    const connection = this.#open(row, baseUrl, [], settings?.proxy)
    this.#keyless.set(row.name, connection)
    return connection
  }

  /** The connection to a resource of an organisation at a cloud, whose base URL the provider has; without keys. */
  atResource(provider: ProviderRow): Connection {
    let connection = this.#resources.get(provider.base_url)
    if (!connection) {
      const settings = settingsOf(this.#config.providers, provider)
      connection = this.#open(provider, provider.base_url, [], settings?.proxy)
      this.#resources.set(provider.base_url, connection)
    }
    return connection
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
    const keyOf = ({ row, apiKeys }: Server) => JSON.stringify([row.base_url, row.auth, row.protocol, apiKeys])
    for (const [name, { key, connection }] of this.#servers) {
      const server = wanted.get(name)
      if (server && keyOf(server) === key) continue
      this.#servers.delete(name)
      this.#retire(name, connection)
    }
    for (const [name, server] of wanted) {
      if (this.find(name)) continue
      const { row, apiKeys } = server
      if (!protocols[row.protocol] || (row.auth !== 'none' && apiKeys.length === 0)) continue
      const credentials = credentialsOf(apiKeys, `server ${name}`)
      const connection = this.#open(row, row.base_url, credentials)
      this.#servers.set(name, { key: keyOf(server), connection })
    }
  }

  /**
   * Replaces the API keys of the providers of the files that were added at run time. A provider that has some uses them in place of
   * those of the environment. Calls go on with the key that they were given; the connections stay.
   */
  setKeys(keys: ReadonlyMap<string, readonly string[]>): void {
    for (const row of this.#rows) {
      const added = protocols[row.protocol] ? (valueFor(row.name, name => keys.get(name)) ?? []) : []
      const before = this.#keys.get(row.name) ?? []
      if (added.length === before.length && added.every((key, index) => key === before[index])) continue
      if (added.length > 0) this.#keys.set(row.name, added)
      else this.#keys.delete(row.name)
      this.#replaceKeys(row, added)
    }
  }

  #replaceKeys(row: ProviderRow, added: readonly string[]): void {
    const { name } = row
    const current = this.#connections.get(name)
    const configured = this.#configured.get(name)
    if (added.length === 0 && !configured) {
      this.#connections.delete(name)
      if (current) this.#retire(name, current)
      return
    }
    const credentials = added.length > 0 ? credentialsOf(added, 'added at run time') : configured!.credentials
    const open = current ?? configured ?? this.#openConfigured(row, settingsOf(this.#config.providers, row), [])
    if (!open) return
    const former = [...open.former, ...open.credentials].filter(({ id }) => credentials.every(one => one.id !== id))
    this.#connections.set(name, { ...open, credentials, former: former.slice(-maxFormerKeys) })
  }

  #open({ auth }: ProviderRow, baseUrl: string, credentials: Credential[], ownProxy: string | null = null): Connection {
    const base = new URL(baseUrl)
    const { proxies, upstream } = this.#config
    const proxy = ownProxy === directConnection ? null : (ownProxy ?? proxyFor(base, proxies))
    return {
      pool: openPool(base.origin, upstream, connectionsPerProvider, proxy),
      proxy,
      baseUrl: base.href.replace(/\/+$/, ''),
      origin: base.origin,
      prefix: base.pathname.replace(/\/+$/, ''),
      credentials,
      former: [],
      auth,
    }
  }

  #identify(row: ProviderRow, settings: ProviderSettings): Credential {
    const open = () => openIdentity({ provider: row, settings, proxies: this.#config.proxies, clock: this.#clock })
    const place = `${row.identity} ${hasTokens.has(row.identity!) ? settings.cloud.CREDENTIALS : row.name}`
    const identity = this.#identities.get(place) ?? open()
    this.#identities.set(place, identity)
    return {
      id: keyIdOf(`${row.identity} ${row.name}`),
      label: `identity (${row.identity})`,
      origin: `the gateway's identity (${row.identity})`,
      get secret() {
        return identity.secret
      },
      identity,
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
    const others = [...this.#retired.values(), ...this.#keyless.values(), ...this.#resources.values()]
    const all = [...this.#connections.values(), ...servers, ...others]
    const configured = [...this.#configured.values()]
    for (const { credentials } of [...all, ...configured]) for (const { identity } of credentials) identity?.close()
    await Promise.all(all.map(({ pool }) => pool.destroy()))
  }
}

/** A provider that needs no key is enabled once its server's URL is configured. */
function isEnabled({ auth, identity, region }: ProviderRow, { apiKeys, baseUrl }: ProviderSettings): boolean {
  if (apiKeys.length > 0) return true
  if (identity !== undefined) return region !== undefined || baseUrl !== null
  return auth === 'none' && baseUrl !== null
}

function credentialsOf(apiKeys: readonly string[], origin: string): Credential[] {
  return (apiKeys.length > 0 ? apiKeys : ['']).map((secret, position) => ({
    id: keyIdOf(secret),
    label: labelOf(secret, position, apiKeys.length),
    origin: apiKeys.length > 1 ? `${origin} (${position + 1} of ${apiKeys.length})` : origin,
    secret,
    identity: null,
  }))
}

/** A secret of at most this length would be given away in good part by its last characters. */
const maxHiddenLength = 15

/** "2 of 3, …wxyz" */
function labelOf(secret: string, position: number, count: number): string {
  if (secret === '') return 'no API key'
  const end = secret.length > maxHiddenLength ? `, …${secret.slice(-4)}` : ''
  return `${position + 1} of ${count}${end}`
}

/** The id of an API key, which does not reveal it. */
export function keyIdOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12)
}

/** Selects among the API keys of a provider: round-robin among those without a cooldown. */
export class CredentialSelector {
  readonly #connections: Connections
  readonly #health: Pick<Health, 'keyCooldownMs' | 'hasKeys'>
  /** Calls by provider; bounded by the catalog. */
  readonly #calls = new Map<string, number>()

  constructor(connections: Connections, health: Pick<Health, 'keyCooldownMs' | 'hasKeys'>) {
    this.#connections = connections
    this.#health = health
  }

  /** The API keys of a target, by ids that do not reveal them, with their remaining cooldowns. */
  list(target: Target): { id: string; label: string; cooldownMs: number }[] {
    const connection = this.#find(target)
    if (!connection || connection.auth === 'none') return []
    return connection.credentials.map(({ id, label }) => ({
      id,
      label,
      cooldownMs: this.#health.keyCooldownMs(target, id),
    }))
  }

  /** The time until one of the API keys is usable; 0 for a provider that is not configured. */
  cooldownMs(target: Target): number {
    if (!this.#health.hasKeys && !target.own) return 0
    const connection = this.#find(target)
    if (!connection) return 0
    let cooldownMs = Number.POSITIVE_INFINITY
    for (const { id } of connection.credentials)
      cooldownMs = Math.min(cooldownMs, this.#health.keyCooldownMs(target, id))
    return cooldownMs
  }

  /** See `Upstreams.credential`. */
  select(target: Target, preferredId: string | null): { credential: Credential; alone: boolean } {
    const { provider, own } = target
    const { credentials } = own?.connection ?? this.#connections.get(provider.name)
    const [only, another] = credentials
    if (!another) return { credential: only!, alone: true }
    const ready = credentials.filter(({ id }) => this.#health.keyCooldownMs(target, id) === 0)
    const usable = ready.length > 0 ? ready : credentials
    return {
      credential:
        usable.find(({ id }) => id === preferredId) ??
        (own ? usable[own.calls++ % usable.length]! : this.#next(provider.name, usable)),
      alone: usable.length === 1,
    }
  }

  #find({ provider, own }: Target): Connection | undefined {
    return own?.connection ?? this.#connections.find(provider.name)
  }

  #next(provider: string, usable: readonly Credential[]): Credential {
    const calls = this.#calls.get(provider) ?? 0
    this.#calls.set(provider, calls + 1)
    return usable[calls % usable.length]!
  }
}

/** The headers that authorize a request: at once for an API key, later for an identity, which rejects with a ProviderError. */
export function authorize(
  { auth, origin }: Pick<Connection, 'auth' | 'origin'>,
  { secret, identity }: Credential,
  request: OutgoingRequest,
  clock: Clock,
): Record<string, string> | Promise<Record<string, string>> {
  if (!identity) return authHeader(auth, secret, clock.now())
  const { method, path, headers, body } = request
  return identity.authorize({ method, url: origin + path, headers, body })
}

type AuthorizedExchange = { pool: Dispatcher; request: OutgoingRequest; timeouts: Timeouts; sink: ResponseSink }

/** An exchange that begins once its request is authorized; a failure of that is reported as its error. */
export function exchangeAuthorized(
  { identity }: Pick<Credential, 'identity'>,
  authorizing: Promise<Record<string, string>>,
  { pool, request, timeouts, sink }: AuthorizedExchange,
): Exchange {
  let running: Exchange | null = null
  let isPaused = false
  let isAborted = false
  const watched = identity ? watchRefusals(sink, identity) : sink
  authorizing.then(
    headers => {
      if (isAborted) return
      running = exchange(pool, { ...request, headers: { ...request.headers, ...headers } }, timeouts, watched)
      if (isPaused) running.pause()
    },
    (error: Error) => {
      if (!isAborted) sink.onError('connection', error)
    },
  )
  return {
    abort() {
      if (running || isAborted) return running?.abort()
      isAborted = true
      sink.onError('aborted', new Error('aborted by the caller'))
    },
    pause() {
      isPaused = true
      running?.pause()
    },
    resume() {
      isPaused = false
      running?.resume()
    },
  }
}

function watchRefusals(sink: ResponseSink, identity: Identity): ResponseSink {
  return {
    onSent: () => sink.onSent?.(),
    onHead(status, headers) {
      if (identity.isRefusal?.(status, headers) ?? status === 401) identity.recordRefusal()
      sink.onHead(status, headers)
    },
    onData: chunk => sink.onData(chunk),
    onEnd: () => sink.onEnd(),
    onError: (fault, error) => sink.onError(fault, error),
  }
}

/** Lifetime of a signed token, and the tolerated clock skew of the provider. */
const tokenSeconds = 1_800
const skewSeconds = 5

/** The header that carries an API key, in the form that the provider's row names. */
export function authHeader(auth: ProviderRow['auth'], secret: string, nowMs: number): Record<string, string> {
  switch (auth) {
    case 'none':
      return secret ? { authorization: `Bearer ${secret}` } : {}
    case 'bearer':
      return { authorization: `Bearer ${secret}` }
    case 'jwt':
      return { authorization: `Bearer ${signedToken(secret, nowMs)}` }
    case 'key':
      return { authorization: `Key ${secret}` }
    case 'token':
      return { authorization: `Token ${secret}` }
    default:
      return { [auth]: secret }
  }
}

/** A JSON Web Token (RFC 7519, HS256) from an API key of the form `<access key>:<secret key>`. */
function signedToken(secret: string, nowMs: number): string {
  const [issuer, key = ''] = secret.split(/:(.*)/s)
  const now = Math.floor(nowMs / 1000)
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = { iss: issuer, exp: now + tokenSeconds, nbf: now - skewSeconds }
  const unsigned = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`
  return `${unsigned}.${createHmac('sha256', key).update(unsigned).digest('base64url')}`
}
