import { createHash } from 'node:crypto'
import type { Config } from '../base/config.ts'
import type { Clock } from '../base/time.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { ModelRow, ProviderRow } from '../catalog/schema.ts'
import { type Dispatcher, type Exchange, exchange, openPool, type ResponseSink, type Timeouts } from '../io/http.ts'
import type { WebSocket } from '../io/socket.ts'
import type { ChatRequest } from '../kinds/chat.ts'
import type { DirectKind, DirectKinds, InstantKind, QueuedKind } from '../kinds/index.ts'
import { authHeader } from './auth.ts'
import type { Avatar, CatalogPage, CatalogQuery, Voice } from './avatar-catalog.ts'
import { completionOverChat } from './completion-over-chat.ts'
import type {
  DirectAdapter,
  InstantAdapter,
  Protocol,
  ProviderLine,
  QueuedAdapter,
  Target,
  UpstreamRequest,
} from './contract.ts'
import { functionsOverTools, hasFunctions } from './functions-over-tools.ts'
import type { Figures, Health } from './health.ts'
import { openLine } from './line.ts'
import { protocols } from './protocols.ts'
import type { RealtimeAdapter } from './realtime-contract.ts'
import { sandboxCatalog } from './sandbox/avatars.ts'
import { createSandboxProtocol } from './sandbox/protocol.ts'
import { createSandboxSessions, type SandboxSessions } from './sandbox/sessions.ts'
import { connectSession } from './session-socket.ts'

export type Environment = 'live' | 'test'

/**
 * The way of one call. Without a credential it leads to the sandbox; `alone` = no other API key could be used now;
 * `withinMs` is what is left of the time to wait for the first byte, `tokenWithinMs` that for the first token of a stream.
 */
export type Route = {
  target: Target
  credential: Credential | null
  alone: boolean
  withinMs: number
  tokenWithinMs: number
}

/** An API key at a provider. `id` names it without giving it away. */
export type Credential = { id: string; secret: string }

/** What one provider offers to choose from for talking avatars, as it says now. */
export type OpenCatalog = {
  provider: string
  avatars(query: CatalogQuery): Promise<CatalogPage<Avatar>>
  voices(query: CatalogQuery): Promise<CatalogPage<Voice>>
}

type Line = {
  pool: Dispatcher
  baseUrl: string
  prefix: string
  credentials: Credential[]
  next: number
  auth: ProviderRow['auth']
}

/** Connections one process may hold open to one provider. */
const connectionsPerProvider = 8_192
const sandboxPrefix = '/v1'
/** A server that answers an upgrade at all does so at once. */
const longestUpgradeMs = 10_000

/** The configured providers and the lines to them. Test keys always get the sandbox: this is the one place that decides it. */
export class Upstreams {
  readonly #catalog: Catalog
  readonly #timeouts: Timeouts
  readonly #health: Health
  readonly #lines = new Map<string, Line>()
  readonly #sandbox: Dispatcher
  readonly #sandboxProtocol: Protocol
  readonly #sandboxSessions: SandboxSessions
  readonly #clock: Clock

  constructor(options: { catalog: Catalog; config: Config; health: Health; sandbox: Dispatcher; clock: Clock }) {
    this.#catalog = options.catalog
    this.#timeouts = options.config.upstream
    this.#health = options.health
    this.#sandbox = options.sandbox
    this.#sandboxProtocol = createSandboxProtocol(options.clock, this.#timeouts.firstByteTimeoutMs)
    this.#sandboxSessions = createSandboxSessions()
    this.#clock = options.clock
    for (const row of options.catalog.providers.values()) {
      const settings = options.config.providers.get(row.name)
      // A provider without a key is off; one that needs no key is on once it is told where its server is.
      const on = row.auth === 'none' ? settings?.baseUrl : settings?.apiKeys.length
      if (!on || !protocols[row.protocol]) continue
      const base = new URL(settings!.baseUrl ?? row.base_url)
      const pool = openPool(base.origin, this.#timeouts, connectionsPerProvider)
      this.#lines.set(row.name, {
        pool,
        baseUrl: base.href.replace(/\/+$/, ''),
        prefix: base.pathname.replace(/\/+$/, ''),
        credentials: (settings!.apiKeys.length > 0 ? settings!.apiKeys : ['']).map(credentialOf),
        next: 0,
        auth: row.auth,
      })
    }
  }

  /** Whether a provider has what it needs to be called. */
  configured(provider: string, environment: Environment): boolean {
    return environment === 'test' || this.#lines.has(provider)
  }

  /** Who can serve a model for this environment, in the catalog's order. */
  targets(model: ModelRow, environment: Environment): Target[] {
    const targets: Target[] = []
    for (const { deployment, provider } of this.#catalog.targets(model)) {
      if (this.configured(provider.name, environment)) targets.push({ model, deployment, provider })
    }
    return targets
  }

  /**
   * The protocol and adapter that serve a kind at a target; null where its protocol does not serve the kind. `body`: the request,
   * where one is to be served.
   */
  adapter<K extends DirectKind>(
    kind: K,
    target: Target,
    environment: Environment,
    body?: DirectKinds[K]['request'],
  ): { adapter: DirectAdapter<K>; protocol: Protocol } | null {
    const protocol = environment === 'test' ? protocols.openai! : protocols[target.provider.protocol]
    if (!protocol) return null
    const overChat = kind === 'completion' && target.model.endpoint !== '/v1/completions' && protocol.direct.chat
    const adapter = overChat ? completionOverChat(overChat) : protocol.direct[kind]
    if (!adapter) return null
    const overTools = kind === 'chat' && body && hasFunctions(body as ChatRequest)
    const served = overTools ? functionsOverTools(adapter as DirectAdapter<'chat'>) : adapter
    return { adapter: served as DirectAdapter<K>, protocol }
  }

  /**
   * What is known of a target now. It rests for as long as its circuit is open or a provider asked for it, be it on every
   * API key.
   */
  figures(target: Target): Figures {
    const figures = this.#health.figures(target)
    const line = this.#lines.get(target.provider.name)
    if (!line) return figures
    let keysRestMs = Number.POSITIVE_INFINITY
    for (const { id } of line.credentials) keysRestMs = Math.min(keysRestMs, this.#health.keyRestMs(target, id))
    return keysRestMs > figures.restMs ? { ...figures, restMs: keysRestMs } : figures
  }

  /** The API keys a target may be called with, by ids that do not give them away, and how long each must rest. */
  apiKeys(target: Target): { id: string; restMs: number }[] {
    const line = this.#lines.get(target.provider.name)
    if (!line || line.auth === 'none') return []
    return line.credentials.map(({ id }) => ({ id, restMs: this.#health.keyRestMs(target, id) }))
  }

  /**
   * The API key for the next call to a target: the preferred one, else the next in turn, of those that need not rest.
   * `alone` = no other could be used now.
   */
  credential(target: Target, preferredId: string | null = null): { credential: Credential; alone: boolean } {
    const line = this.#lines.get(target.provider.name)
    if (!line) throw new Error(`provider ${target.provider.name} is not configured`)
    const [only, another] = line.credentials
    if (!another) return { credential: only!, alone: true }
    const rested = line.credentials.filter(({ id }) => this.#health.keyRestMs(target, id) === 0)
    const usable = rested.length > 0 ? rested : line.credentials
    const credential = usable.find(({ id }) => id === preferredId) ?? usable[line.next++ % usable.length]!
    return { credential, alone: usable.length === 1 }
  }

  /**
   * Sends a request to a target; a live one with one of its API keys, which goes to that provider's own origin and nowhere
   * else. `withinMs` shortens the wait for the first byte.
   */
  send({ target, credential, withinMs }: Route, request: UpstreamRequest, sink: ResponseSink): Exchange {
    const timeouts =
      withinMs < this.#timeouts.firstByteTimeoutMs
        ? { ...this.#timeouts, firstByteTimeoutMs: withinMs }
        : this.#timeouts
    if (!credential) return exchange(this.#sandbox, { ...request, path: sandboxPrefix + request.path }, timeouts, sink)
    const line = this.#lines.get(target.provider.name)
    if (!line) throw new Error(`provider ${target.provider.name} is not configured`)
    const headers = { ...request.headers, ...authHeader(line.auth, credential.secret, this.#clock.now()) }
    return exchange(
      line.pool,
      { method: request.method, path: line.prefix + request.path, headers, body: request.body },
      timeouts,
      sink,
    )
  }

  /** The protocol and adapter that serve a kind of slow work at a provider; null where its protocol does not serve it. */
  queued<K extends QueuedKind>(
    kind: K,
    provider: ProviderRow,
    environment: Environment,
  ): { adapter: QueuedAdapter<K>; protocol: Protocol } | null {
    const protocol = environment === 'test' ? this.#sandboxProtocol : protocols[provider.protocol]
    const adapter = protocol?.queued?.[kind]
    return protocol && adapter ? { adapter: adapter as QueuedAdapter<K>, protocol } : null
  }

  /** The protocol and adapter that make a kind of media at a provider; null where its protocol does not. */
  instant<K extends InstantKind>(
    kind: K,
    provider: ProviderRow,
    environment: Environment,
  ): { adapter: InstantAdapter<K>; protocol: Protocol } | null {
    const protocol = environment === 'test' ? this.#sandboxProtocol : protocols[provider.protocol]
    const adapter = protocol?.instant?.[kind]
    return protocol && adapter ? { adapter: adapter as InstantAdapter<K>, protocol } : null
  }

  /** How sessions are held at a target; null where its protocol has none for this deployment. */
  realtime({ deployment, provider }: Target, environment: Environment): RealtimeAdapter | null {
    const protocol = environment === 'test' ? this.#sandboxProtocol : protocols[provider.protocol]
    return protocol?.realtime?.(deployment) ?? null
  }

  /** Opens the socket of a session at a target, paused. Rejects with a ProviderError, or the signal's reason once it is aborted. */
  connect({ target, credential }: Route, path: string, signal: AbortSignal): Promise<WebSocket> {
    if (!credential) return connectSession(this.#sandboxSessions.address(path), null, signal)
    const { name, protocol } = target.provider
    const line = this.#lines.get(name)
    if (!line) throw new Error(`provider ${name} is not configured`)
    const headers = authHeader(line.auth, credential.secret, this.#clock.now())
    const { connectTimeoutMs, firstByteTimeoutMs } = this.#timeouts
    const handshakeTimeoutMs = connectTimeoutMs + Math.min(firstByteTimeoutMs, longestUpgradeMs)
    return connectSession({ url: line.baseUrl + path, headers, handshakeTimeoutMs }, protocols[protocol]!, signal)
  }

  /** What a provider speaks. */
  protocol(provider: ProviderRow): Protocol | undefined {
    return protocols[provider.protocol]
  }

  /** The line of one API key to a provider, for slow work. A key that is no longer configured gives way to the first one. */
  line(provider: ProviderRow, environment: Environment, credentialId: string | null): ProviderLine {
    if (environment === 'test') {
      const none = () => Promise.reject(new Error('the sandbox has no line'))
      return { provider, baseUrl: '', send: none, stream: none, open: none }
    }
    const line = this.#lines.get(provider.name)
    const protocol = protocols[provider.protocol]
    if (!line || !protocol) throw new Error(`provider ${provider.name} is not configured`)
    const { pool, baseUrl, prefix, credentials } = line
    const credential = credentials.find(({ id }) => id === credentialId) ?? credentials[0]!
    const auth = () => authHeader(line.auth, credential.secret, this.#clock.now())
    return openLine({ provider, protocol, pool, baseUrl, prefix, timeouts: this.#timeouts, auth })
  }

  /** The catalogs of the providers that serve an avatar model for this environment, in the models' order. */
  avatarCatalogs(environment: Environment): OpenCatalog[] {
    if (environment === 'test') return [{ provider: 'sandbox', ...sandboxCatalog }]
    const models = [...this.#catalog.models.values()].filter(({ type, disabled }) => type === 'avatar' && !disabled)
    const providers = new Set(models.flatMap(model => this.targets(model, environment)).map(target => target.provider))
    return [...providers].flatMap(provider => {
      const catalog = protocols[provider.protocol]?.catalog
      if (!catalog) return []
      const line = this.line(provider, environment, null)
      return {
        provider: provider.name,
        avatars: query => catalog.avatars(query, line),
        voices: query => catalog.voices(query, line),
      }
    })
  }

  /** Closes every connection; exchanges under way are cut. */
  async close(): Promise<void> {
    this.#sandboxSessions.close()
    await Promise.all([this.#sandbox, ...[...this.#lines.values()].map(line => line.pool)].map(pool => pool.destroy()))
  }
}

function credentialOf(secret: string): Credential {
  return { id: createHash('sha256').update(secret).digest('hex').slice(0, 12), secret }
}
