import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { GatewayError } from '../../shared/base/errors.ts'
import { elapsedMs } from '../../shared/base/time.ts'
import { validate } from '../../shared/base/validate.ts'
import { ClientGone, publicError } from '../../shared/engine/failures.ts'
import type { ClientPresence } from '../../shared/engine/response-writer.ts'
import { servedSockets } from '../../shared/io/socket.ts'
import type { ResolvedKey } from '../../shared/keys/policies.ts'
import { realtimeQuery } from '../../shared/kinds/realtime.ts'
import type { Services } from '../../shared/open-services.ts'
import type { Platform } from '../../shared/platform.ts'
import { SessionRegistry } from '../../shared/realtime/session-registry.ts'
import { parseSessionRequest } from '../../shared/realtime/settings.ts'
import { SpanKind } from '../../shared/traces/trace.ts'
import { resolveSessionKey } from '../auth/api-keys.ts'
import { baseHeaders } from '../http-response.ts'
import { requestIdOf, withSingleSlashes } from '../http-server.ts'
import { logRefusal } from '../log-refusal.ts'
import { recordOnSocket } from '../request-metrics.ts'
import { endSocketTrace } from '../request-trace.ts'
import { maxResponsesBytes } from '../routes/responses.ts'
import { unmatchedSocketError } from '../unmatched-route.ts'
import { FrameReader } from './frame-reader.ts'
import { assertHandshake, authorizationOf, rejectUpgrade, trackPresence } from './handshake.ts'
import { ResponsesConnections } from './responses/connections.ts'
import { responsesPath } from './responses/turn.ts'

const realtimePath = '/v1/realtime'
const subprotocol = 'realtime'

/** What an upgrade opens: started once the upgrade is answered, or abandoned if its client has disconnected. */
type Opened = {
  readonly headers: Record<string, string>
  /** Resolves with fields for the log when it is over. */
  readonly over: Promise<object>
  start(socket: WebSocket): void
  /** Ends it with an error and a close code; by default that of the error. */
  stop(failure: GatewayError, code?: number): void
  abandon(): void
}

type Upgrade = {
  request: IncomingMessage
  socket: Duplex
  head: Buffer
  path: string
  requestId: string
  /** Once a realtime session is asked for with one. */
  key: ResolvedKey | undefined
  model: unknown
}

/** Handles a server's `upgrade` events: opens realtime sessions and connections for responses. */
export class UpgradeServer {
  readonly #services: Platform
  readonly #sessions: SessionRegistry
  readonly #connections: ResponsesConnections
  readonly #sockets: Record<string, WebSocketServer> = {
    [realtimePath]: createSockets(servedSockets.maxPayload),
    [responsesPath]: createSockets(maxResponsesBytes),
  }

  /** The connections with an unanswered upgrade, and every upgrade until its session is over. */
  readonly #pending = new Set<Duplex>()
  readonly #upgrades = new Set<Promise<void>>()

  constructor(services: Services) {
    this.#services = services
    this.#sessions = new SessionRegistry(services)
    this.#connections = new ResponsesConnections(services)
  }

  /**
   * Answers an upgrade with a session, or with the status and error of an ordinary request. Resolves once the session
   * is over. Never rejects.
   */
  async upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const upgrade = this.#serve(request, socket, head)
    this.#upgrades.add(upgrade)
    await upgrade
    this.#upgrades.delete(upgrade)
  }

  /**
   * Accepts no more upgrades. Notifies the open sessions, and closes the rest after `withinMs`; connections for
   * responses close as soon as they run no turn.
   */
  async drain(withinMs: number): Promise<void> {
    const timer = setTimeout(() => this.#destroyPending(), withinMs)
    await Promise.all([this.#sessions.drain(withinMs), this.#connections.drain()])
    await Promise.all(this.#upgrades)
    clearTimeout(timer)
  }

  /** Closes the remaining connections. */
  close(): void {
    this.#destroyPending()
    this.#sessions.close()
    this.#connections.close()
  }

  #destroyPending(): void {
    for (const socket of this.#pending) socket.destroy()
  }

  async #serve(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { clock, monotonic, log, metrics, tracing } = this.#services
    const [startedMs, beganMs] = [clock.now(), monotonic.now()]
    const requestId = requestIdOf(request.headers['x-request-id'])
    request.url = withSingleSlashes(request.url ?? '/')
    const path = request.url.split('?', 1)[0]!
    const upgrade: Upgrade = { request, socket, head, path, requestId, key: undefined, model: undefined }
    const logFields: Record<string, unknown> = {}
    const client = trackPresence(socket)
    // The turns of a connection for responses have traces of their own.
    const trace = path === realtimePath ? tracing?.begin(request.headers, `GET ${path}`, SpanKind.SERVER) : null
    let status = 101
    let failure: GatewayError | null = null
    this.#pending.add(socket)
    try {
      const opened = await this.#open(upgrade, client, logFields).finally(() => {
        this.#pending.delete(socket)
        client.answered()
      })
      this.#start(opened, upgrade, String(logFields.organisation))
      Object.assign(logFields, await opened.over)
    } catch (error) {
      if (error instanceof ClientGone) {
        status = 499
        socket.destroy()
      } else {
        failure = publicError(error)
        status = failure.status
        logFields.errorCode = failure.code
        if (status >= 500) log.error({ requestId, code: failure.code, err: failure.cause ?? error }, failure.message)
        rejectUpgrade(socket, failure, path, requestId)
      }
    }
    const durationMs = elapsedMs(beganMs, monotonic.now())
    if (failure && Object.hasOwn(this.#sockets, path)) {
      const kind = path === realtimePath ? 'realtime' : 'responses'
      const refusal = { kind, failure, requestId, startedMs, status, durationMs }
      logRefusal(this.#services, { ...upgrade, streamed: true }, refusal)
    }
    // The turns of a connection for responses are counted one by one.
    const environment = upgrade.key?.policy.environment ?? ''
    if (metrics && (path === realtimePath || status !== 101))
      recordOnSocket(metrics, logFields, { path, status, environment, durationMs })
    if (trace) endSocketTrace(trace, logFields, { requestId, path, status })
    log.info({ requestId, method: request.method, path, ...logFields, status, durationMs }, 'request')
  }

  async #open(upgrade: Upgrade, client: ClientPresence, logFields: Record<string, unknown>): Promise<Opened> {
    const { request, socket, path, requestId } = upgrade
    const { headers } = request
    // Clients that try a WebSocket first fall back to plain HTTP immediately on 426, and only on that status.
    if (!Object.hasOwn(this.#sockets, path)) throw unmatchedSocketError({ path, headers }, Object.keys(this.#sockets))
    const { origins } = this.#services.config.realtime
    if (path === realtimePath && origins && headers.origin !== undefined && !origins.includes(headers.origin))
      throw new GatewayError('origin_not_allowed', `Pages of ${headers.origin} may not open sessions here.`)
    assertHandshake(request)
    const query = Object.fromEntries(new URLSearchParams(request.url!.slice(path.length)))
    const authorization = authorizationOf(request)
    if (path === responsesPath)
      return this.#connections.open({ authorization, headers, requestId }, socket, client, logFields)
    const { apiKey, secret } = await resolveSessionKey(this.#services, authorization)
    logFields.organisation = apiKey.policy.organisationId
    logFields.key = apiKey.policy.keyId
    upgrade.key = apiKey
    upgrade.model = query.model
    const asked = parseSessionRequest(this.#services.catalog, validate(realtimeQuery, query), secret)
    return this.#sessions.open({ ...asked, key: apiKey, requestId }, client)
  }

  #start(opened: Opened, { request, socket, head, path, requestId }: Upgrade, organisationId: string): void {
    const sockets = this.#sockets[path]!
    const own = { ...baseHeaders(requestId, true), ...opened.headers }
    const addHeaders = (lines: string[]) => {
      for (const [name, value] of Object.entries(own)) lines.push(`${name}: ${value}`)
    }
    // The upgrade is answered synchronously within this call.
    sockets.once('headers', addHeaders)
    let isUpgraded = false
    sockets.handleUpgrade(request, socket, head, webSocket => {
      isUpgraded = true
      const held = this.#services.budgets.bodies.open(organisationId)
      new FrameReader(webSocket, socket, held, (failure, code) => opened.stop(failure, code))
      opened.start(webSocket)
    })
    sockets.off('headers', addHeaders)
    if (!isUpgraded) opened.abandon()
  }
}

function createSockets(maxPayload: number): WebSocketServer {
  return new WebSocketServer({
    ...servedSockets,
    noServer: true,
    clientTracking: false,
    maxPayload,
    // The key that a page sends as a subprotocol must not be echoed.
    handleProtocols: offered => (offered.has(subprotocol) ? subprotocol : false),
  })
}
