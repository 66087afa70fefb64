import type { Config } from '../base/config.ts'
import type { Clock } from '../base/time.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Server } from '../catalog/overrides.ts'
import { familyOf, providersAtResource, valueFor } from '../catalog/regions.ts'
import { withBodyParameters, withHeaders } from '../catalog/request-additions.ts'
import type { Deployment, ModelRow, ProviderRow } from '../catalog/schema.ts'
import { servesResponses } from '../catalog/traits.ts'
import { uncompressed } from '../io/content-coding.ts'
import { type Dispatcher, type Exchange, exchange, type ResponseSink, type Timeouts } from '../io/http.ts'
import type { Sealer } from '../io/sealer.ts'
import type { WebSocket } from '../io/socket.ts'
import type { OwnKey, OwnKeys } from '../keys/own-keys.ts'
import { type ChatRequest, hasFunctions } from '../kinds/chat.ts'
import type { DirectKind, DirectKinds, QueuedKind, SyncKind } from '../kinds/index.ts'
import type { ResponsesRequest } from '../kinds/responses.ts'
import type { Credential, OwnAccount } from './access.ts'
import { chat as unfittedChat } from './adapters/openai/chat.ts'
import type { Avatar, CatalogPage, CatalogQuery, Voice } from './avatar-catalog.ts'
import { connectSession } from './connect-session.ts'
import { authHeader, authorize, Connections, CredentialSelector, exchangeAuthorized } from './connections.ts'
import type {
  DirectAdapter,
  Protocol,
  ProviderConnection,
  QueuedAdapter,
  SyncAdapter,
  Target,
  UpstreamRequest,
} from './contract.ts'
import { type CredentialReport, checkCredential } from './credential-check.ts'
import type { Figures, Health } from './health.ts'
import { takesAnswerFormat, takesResponses } from './native-format.ts'
import { openConnection } from './open-connection.ts'
import { OwnAccounts, takesOwnKeys } from './own-accounts.ts'
import { isRewritten } from './profile/fit-chat.ts'
import { protocols } from './protocols.ts'
import { type ProviderPauses, pausedCooldownMs } from './provider-pauses.ts'
import type { RealtimeAdapter } from './realtime-contract.ts'
import { withDeclarationsOnly, withFunctionsOnly } from './sandbox/chat/own-tools.ts'
import { sandboxCatalog } from './sandbox/media/avatars.ts'
import { createSandboxProtocol } from './sandbox/media/protocol.ts'
import { createSandboxSessions, type SandboxSessions } from './sandbox/realtime/sessions.ts'
import { completionOverChat } from './toolkit/completion-over-chat.ts'
import { functionsOverTools } from './toolkit/functions-over-tools.ts'
import { generateContentOverChat } from './toolkit/generate-content-over-chat/adapter.ts'
import { messagesOverChat } from './toolkit/messages-over-chat/adapter.ts'
import { responsesOverChat } from './toolkit/responses-over-chat/adapter.ts'

export type { Credential } from './access.ts'

type Environment = 'live' | 'test'

/** A protocol with its adapter for one endpoint kind. */
type Served<Adapter> = { adapter: Adapter; protocol: Protocol }

/**
 * The route of one call. Without a credential it leads to the sandbox; `alone` = no other API key is usable now;
 * `withinMs` is the remaining time to the first byte of a stream, `tokenWithinMs` that to its first token, or to the
 * first byte of a whole answer.
 */
export type Route = {
  target: Target
  credential: Credential | null
  alone: boolean
  withinMs: number
  tokenWithinMs: number
  /** The caller's own limit to the first token of a stream, or to a whole answer, if it is the shortest; absent = none. */
  callerWithinMs?: number | undefined
  /** The trace context that the provider receives; absent = none. */
  traceparent?: string
}

/** One provider's current avatars and voices. */
export type OpenCatalog = {
  provider: string
  /** The own key of an organisation whose account it is of; null = the operator's. */
  ownKeyId: string | null
  avatars(query: CatalogQuery): Promise<CatalogPage<Avatar>>
  voices(query: CatalogQuery): Promise<CatalogPage<Voice>>
}

/** The sandbox's upstream speaks the protocol of OpenAI for these kinds, and takes what no profile restricts. */
const sandboxDirectProtocol: Protocol = {
  ...protocols.openai!,
  direct: { ...protocols.openai!.direct, chat: unfittedChat },
}
const sandboxPrefix = '/v1'
/** A server that supports upgrades responds to them immediately. */
const maxUpgradeMs = 10_000

/**
 * The upstreams of every call: which targets are configured, which adapter and API key serves a call, and the connection
 * it takes. Calls with test keys go to the sandbox.
 */
export class Upstreams {
  readonly #catalog: Catalog
  readonly #config: Config
  readonly #timeouts: Timeouts
  readonly #health: Health
  readonly #pauses: Pick<ProviderPauses, 'any' | 'isPaused' | 'revision'>
  readonly #clock: Clock
  readonly #connections: Connections
  readonly #credentials: CredentialSelector
  readonly #own: OwnAccounts
  readonly #sandbox: Dispatcher
  readonly #sandboxProtocol: Protocol
  readonly #sandboxSessions: SandboxSessions

  constructor(options: {
    catalog: Catalog
    config: Config
    health: Health
    pauses: Pick<ProviderPauses, 'any' | 'isPaused' | 'revision'>
    sandbox: Dispatcher
    clock: Clock
    sealer: Sealer
  }) {
    const { catalog, config, health, pauses, sandbox, clock, sealer } = options
    this.#catalog = catalog
    this.#config = config
    this.#timeouts = config.upstream
    this.#health = health
    this.#pauses = pauses
    this.#clock = clock
    this.#connections = new Connections(catalog, config, clock)
    this.#credentials = new CredentialSelector(this.#connections, health)
    this.#own = new OwnAccounts({ catalog, connections: this.#connections, config, health, clock, sealer })
    this.#sandbox = sandbox
    this.#sandboxProtocol = createSandboxProtocol(clock, this.#timeouts.firstByteTimeoutMs)
    this.#sandboxSessions = createSandboxSessions()
  }

  /** Replaces the servers that were added at run time. */
  setServers(servers: readonly Server[]): void {
    this.#connections.setServers(servers)
  }

  /** Replaces the API keys of providers that were added at run time. */
  setKeys(keys: ReadonlyMap<string, readonly string[]>): void {
    this.#connections.setKeys(keys)
  }

  /** Whether a provider is configured for calls. */
  isConfigured(provider: string, environment: Environment): boolean {
    return environment === 'test' || this.#connections.find(provider) !== undefined
  }

  /** The targets that serve a model in this environment, in catalog order; those of own keys first. */
  targets(model: ModelRow, environment: Environment, ownKeys: OwnKeys | null = null): Target[] {
    const targets = ownKeys ? [...this.#own.targets(model, ownKeys)] : []
    if (ownKeys?.mode === 'own') return targets
    for (const { deployment, provider } of this.#catalog.targets(model)) {
      if (this.isConfigured(provider.name, environment)) targets.push({ model, deployment, provider })
    }
    return targets
  }

  /** The targets of a model that an organisation's own keys reach, in catalog order. */
  ownTargets(model: ModelRow, ownKeys: OwnKeys): readonly Target[] {
    return this.#own.targets(model, ownKeys)
  }

  /** An organisation's access to a provider by one of its keys; null if the provider's region is not configured. */
  ownAccount(provider: ProviderRow, key: OwnKey): OwnAccount | null {
    const credential = this.#own.credential(key, provider)
    if (provider.named_deployments) return this.#own.accountAtResource(provider, credential)
    return this.#own.account(provider, [credential], credential.project)
  }

  /** Asks a provider whether it accepts an organisation's key; null if none of its regions is configured. */
  async testOwnKey(key: OwnKey): Promise<CredentialReport | null> {
    const { providers, namedClouds } = this.#catalog
    const rows = key.resource
      ? providersAtResource(namedClouds, key.provider, key.resource)
      : [...providers.values()].filter(row => familyOf(row.name) === key.provider)
    let report: CredentialReport | null = null
    for (const row of rows) {
      const account = takesOwnKeys(row) ? this.ownAccount(row, key) : null
      if (!account || report?.outcome === 'accepted') continue
      const { connection } = account
      const found = await checkCredential(row, connection, connection.credentials[0]!, this.#config, this.#clock)
      if (report === null || found.outcome !== 'unknown') report = found
      if (found.outcome !== 'unknown') break
    }
    return report
  }

  /** The adapter for a kind at a target. `body`: the request to serve, if there is one. */
  adapter<K extends DirectKind>(
    kind: K,
    target: Target,
    environment: Environment,
    body?: DirectKinds[K]['request'],
  ): Served<DirectAdapter<K>> | null {
    const protocol = environment === 'test' ? sandboxDirectProtocol : protocols[target.provider.protocol]
    if (!protocol) return null
    const adapter = directAdapter(kind, target, protocol, { environment, body })
    if (!adapter) return null
    const hasOldFunctions = kind === 'chat' && body && hasFunctions(body as ChatRequest)
    if (hasOldFunctions) {
      const overTools = functionsOverTools(adapter as DirectAdapter<'chat'>)
      return { adapter: overTools as DirectAdapter<DirectKind> as DirectAdapter<K>, protocol }
    }
    // Its events are read then, not passed on as bytes.
    const isRead = kind === 'chat' && environment === 'live' && body && isRewritten(body as ChatRequest, target)
    return { adapter: (isRead ? { ...adapter, native: false } : adapter) as DirectAdapter<K>, protocol }
  }

  /** The adapter for a kind of queued work at a provider. */
  queued<K extends QueuedKind>(
    kind: K,
    provider: ProviderRow,
    environment: Environment,
  ): Served<QueuedAdapter<K>> | null {
    const protocol = this.#protocolFor(provider, environment)
    const adapter = protocol?.queued?.[kind]
    return protocol && adapter ? { adapter: adapter as QueuedAdapter<K>, protocol } : null
  }

  /** The adapter for a kind of synchronous media at a provider. */
  synchronous<K extends SyncKind>(
    kind: K,
    provider: ProviderRow,
    environment: Environment,
  ): Served<SyncAdapter<K>> | null {
    const protocol = this.#protocolFor(provider, environment)
    const adapter = protocol?.synchronous?.[kind]
    return protocol && adapter ? { adapter: adapter as SyncAdapter<K>, protocol } : null
  }

  /** The adapter for realtime sessions with a target. */
  realtime({ deployment, provider }: Target, environment: Environment): RealtimeAdapter | null {
    return this.#protocolFor(provider, environment)?.realtime?.(deployment) ?? null
  }

  #protocolFor(provider: ProviderRow, environment: Environment): Protocol | undefined {
    return environment === 'test' ? this.#sandboxProtocol : protocols[provider.protocol]
  }

  /** Whether an operator has paused a provider, or the region of one. */
  isPaused(provider: string): boolean {
    if (!this.#pauses.any) return false
    if (this.#pauses.isPaused(provider)) return true
    if (!provider.includes('/')) return false
    return valueFor(provider, name => this.#pauses.isPaused(name) || undefined) ?? false
  }

  /** Until it changes, a target with `unknownFigures` keeps them. */
  get healthRevision(): number {
    return this.#health.revision + this.#pauses.revision
  }

  /**
   * The current health of a target. Its cooldown ends when the circuit allows a probe, a requested pause is over, at least
   * one API key is usable, and an operator has resumed it.
   */
  figures(target: Target): Figures {
    const figures = this.#health.figures(target)
    if (this.isPaused(target.provider.name)) return { ...figures, cooldownMs: pausedCooldownMs }
    const keysCooldownMs = this.#credentials.cooldownMs(target)
    return keysCooldownMs > figures.cooldownMs ? { ...figures, cooldownMs: keysCooldownMs } : figures
  }

  /** The API keys of a target, by ids and labels that do not reveal them, with their remaining cooldowns. */
  apiKeys(target: Target): { id: string; label: string; cooldownMs: number }[] {
    return this.#credentials.list(target)
  }

  /**
   * The API key for the next call to a target: the preferred one, otherwise round-robin, among keys without a cooldown.
   * `alone` = no other key is usable now.
   */
  credential(target: Target, preferredId: string | null = null): { credential: Credential; alone: boolean } {
    return this.#credentials.select(target, preferredId)
  }

  /**
   * Sends a request to a target. A live one carries one of its API keys, and only to that provider's own origin.
   * `isWhole`: the answer is not streamed, so its first byte may come when all of it is done.
   */
  send(route: Route, request: UpstreamRequest, sink: ResponseSink, isWhole: boolean): Exchange {
    const { target, credential, traceparent } = route
    const timeouts = this.#timeoutsFor(route, isWhole)
    if (!credential) return exchange(this.#sandbox, { ...request, path: sandboxPrefix + request.path }, timeouts, sink)
    const connection = target.own?.connection ?? this.#connections.get(target.provider.name)
    const { pool, prefix, auth } = connection
    const { headers: own, parameters } = target.deployment
    const given: Record<string, string> = { ...uncompressed, ...request.headers }
    const headers = own ? withHeaders(given, own) : given
    const body = parameters ? withBodyParameters(request.body, parameters) : request.body
    if (!credential.identity) Object.assign(headers, authHeader(auth, credential.secret, this.#clock.now()))
    if (traceparent) headers.traceparent = traceparent
    const sent = { method: request.method, path: prefix + request.path, headers, body }
    const { eventSink } = protocols[target.provider.protocol]!
    const received = eventSink ? eventSink(sink) : sink
    if (!credential.identity) return exchange(pool, sent, timeouts, received)
    const authorizing = Promise.resolve(authorize(connection, credential, sent, this.#clock))
    return exchangeAuthorized(credential, authorizing, { pool, request: sent, timeouts, sink: received })
  }

  /**
   * The time-outs of one exchange. A whole answer of a live provider has its total time for the first byte, and for
   * silence within it: some servers send the head at once, others a space now and then.
   */
  #timeoutsFor({ target, credential, withinMs, tokenWithinMs }: Route, isWhole: boolean): Timeouts {
    const timeouts = this.#timeouts
    const { firstByteTimeoutMs, totalTimeoutMs } = timeouts
    // A stream of the flex tier begins when there is capacity.
    if ((isWhole || target.tier === 'flex') && credential)
      return {
        ...timeouts,
        firstByteTimeoutMs: Math.min(totalTimeoutMs, tokenWithinMs),
        idleTimeoutMs: totalTimeoutMs,
      }
    return withinMs < firstByteTimeoutMs ? { ...timeouts, firstByteTimeoutMs: withinMs } : timeouts
  }

  /** The longest silence within a streamed answer. */
  get idleTimeoutMs(): number {
    return this.#timeouts.idleTimeoutMs
  }

  /** Opens the socket of a session at a target, paused. Rejects with a ProviderError, or the signal's reason once it is aborted. */
  async connect({ target, credential }: Route, path: string, signal: AbortSignal): Promise<WebSocket> {
    if (!credential) return connectSession(this.#sandboxSessions.address(path), null, signal)
    const { name, protocol } = target.provider
    const connection = target.own?.connection ?? this.#connections.get(name)
    const { baseUrl, prefix, proxy } = connection
    const request = { method: 'GET', path: prefix + path, headers: {}, body: null } as const
    const authorized = await authorize(connection, credential, request, this.#clock)
    const headers = { ...target.deployment.headers, ...authorized }
    const { connectTimeoutMs, firstByteTimeoutMs } = this.#timeouts
    const handshakeTimeoutMs = connectTimeoutMs + Math.min(firstByteTimeoutMs, maxUpgradeMs)
    return connectSession({ url: baseUrl + path, headers, handshakeTimeoutMs, proxy }, protocols[protocol]!, signal)
  }

  /** A provider's protocol. */
  protocol(provider: ProviderRow): Protocol | undefined {
    return protocols[provider.protocol]
  }

  /**
   * The connection to a provider with one API key. A key that is no longer configured is replaced by the first one. `deployment`:
   * of the model that is called, whose requests may have headers and parameters of their own. `own`: the access by an
   * organisation's own keys.
   */
  connectionTo(
    provider: ProviderRow,
    environment: Environment,
    credentialId: string | null,
    deployment: Deployment | null = null,
    own?: OwnAccount,
  ): ProviderConnection {
    if (environment === 'test') {
      const none = () => Promise.reject(new Error('the sandbox has no connection'))
      return { provider, baseUrl: '', proxy: null, send: none, stream: none, open: none }
    }
    const connection = own?.connection ?? this.#connections.get(provider.name)
    const { pool, proxy, baseUrl, prefix, credentials, former } = connection
    const isSame = ({ id }: Credential) => id === credentialId
    const credential = credentials.find(isSame) ?? former.find(isSame) ?? credentials[0]!
    return openConnection({
      provider,
      protocol: protocols[provider.protocol]!,
      pool,
      proxy,
      baseUrl,
      prefix,
      timeouts: this.#timeouts,
      additions: deployment,
      authorize: request => authorize(connection, credential, request, this.#clock),
    })
  }

  /**
   * The catalogs of the providers that serve an avatar model in this environment, in the models' order: those of the accounts of own
   * keys, then the operator's, as requests may use them.
   */
  avatarCatalogs(environment: Environment, ownKeys: OwnKeys | null = null): OpenCatalog[] {
    if (environment === 'test') return [{ provider: 'sandbox', ownKeyId: null, ...sandboxCatalog }]
    const models = [...this.#catalog.models.values()].filter(({ type, disabled }) => type === 'avatar' && !disabled)
    const accounts = new Map<string, Target>()
    for (const target of models.flatMap(model => this.targets(model, environment, ownKeys)))
      accounts.set(target.own?.lane ?? target.provider.name, target)
    return [...accounts.values()].flatMap(({ provider, own }) => {
      const catalog = protocols[provider.protocol]?.catalog
      if (!catalog || this.isPaused(provider.name)) return []
      const connection = this.connectionTo(provider, environment, null, null, own)
      return {
        provider: provider.name,
        ownKeyId: own ? own.connection.credentials[0]!.id : null,
        avatars: query => catalog.avatars(query, connection),
        voices: query => catalog.voices(query, connection),
      }
    })
  }

  /** Closes every connection and aborts exchanges in progress. */
  async close(): Promise<void> {
    this.#sandboxSessions.close()
    this.#own.close()
    await Promise.all([this.#connections.close(), this.#sandbox.destroy()])
  }
}

/**
 * The adapter of a protocol for a kind; completions of chat models, and requests in a foreign dialect, are served by its
 * chat.
 */
function directAdapter<K extends DirectKind>(
  kind: K,
  target: Target,
  { direct }: Protocol,
  { environment, body }: { environment: Environment; body: DirectKinds[K]['request'] | undefined },
): DirectAdapter<DirectKind> | undefined {
  const isChatModel = target.model.endpoint !== '/v1/completions'
  const { chat } = direct
  if (kind === 'completion' && isChatModel && chat) return completionOverChat(chat)
  if (environment === 'test' && chat && kind === 'messages') return messagesOverChat(chat, withFunctionsOnly)
  if (environment === 'test' && chat && kind === 'generate_content')
    return generateContentOverChat(chat, withDeclarationsOnly)
  const hasFormat = kind === 'chat' || environment === 'test' || takesAnswerFormat(kind, target, body)
  if (kind === 'messages' && !(direct.messages && hasFormat) && chat) return messagesOverChat(chat)
  if (kind === 'generate_content' && !(direct.generate_content && hasFormat) && chat)
    return generateContentOverChat(chat)
  // The sandbox's upstream has no Responses.
  const isNative = environment === 'live' && servesResponses(target) && direct.responses
  const isTranslated =
    kind === 'responses' && !(isNative && hasFormat && takesResponses(target, body as ResponsesRequest))
  if (isTranslated && chat) return responsesOverChat(chat)
  return direct[kind]
}
