import type { IncomingMessage } from 'node:http'
import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocketServer } from 'ws'
import { GatewayError } from '../../shared/base/errors.ts'
import { validate } from '../../shared/base/validate.ts'
import { ClientGone } from '../../shared/engine/failures.ts'
import type { ClientPresence } from '../../shared/engine/response-writer.ts'
import { sessionSockets } from '../../shared/io/socket.ts'
import { realtimeQuery } from '../../shared/kinds/realtime.ts'
import type { Environment } from '../../shared/providers/upstreams.ts'
import type { Session } from '../../shared/realtime/session.ts'
import { SessionRegistry } from '../../shared/realtime/session-registry.ts'
import { parseSessionRequest } from '../../shared/realtime/settings.ts'
import type { Services } from '../../shared/services.ts'
import { keyHeader, resolveSessionKey } from '../middleware/key.ts'
import { baseHeaders, publicError, requestIdOf } from '../request-lifecycle.ts'
import { recordSession } from '../request-metrics.ts'

export const realtimePath = '/v1/realtime'
const subprotocol = 'realtime'
const keyPrefix = 'openai-insecure-api-key.'
const validSocketKey = /^[+/0-9A-Za-z]{22}==$/
const validSubprotocol = /^[!#$%&'*+\-.0-9A-Z^_`a-z|~]+$/
/** Grace period for written data; the client need not read it. */
const rejectionMs = 5_000

/**
 * Whether a request asks for a WebSocket. Other upgrades (clients offer HTTP/2 with any request) are ignored, and the
 * request is answered normally.
 */
export function isWebSocketUpgrade({ headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket'
}

/** Handles a server's `upgrade` events: opens realtime sessions. */
export class RealtimeServer {
  readonly #services: Services
  readonly #sessions: SessionRegistry
  readonly #sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    // The key that a page sends as a subprotocol must not be echoed.
    handleProtocols: offered => (offered.has(subprotocol) ? subprotocol : false),
    ...sessionSockets,
  })

  /** The connections with an unanswered upgrade, and every upgrade until its session is over. */
  readonly #pending = new Set<Duplex>()
  readonly #upgrades = new Set<Promise<void>>()

  constructor(services: Services) {
    this.#services = services
    this.#sessions = new SessionRegistry(services)
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

  /** Accepts no more sessions, notifies the open ones, and closes the rest after `withinMs`. */
  async drain(withinMs: number): Promise<void> {
    const timer = setTimeout(() => this.#destroyPending(), withinMs)
    await this.#sessions.drain(withinMs)
    await Promise.all(this.#upgrades)
    clearTimeout(timer)
  }

  /** Closes the remaining connections. */
  close(): void {
    this.#destroyPending()
    this.#sessions.close()
  }

  #destroyPending(): void {
    for (const socket of this.#pending) socket.destroy()
  }

  async #serve(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { clock, log, metrics } = this.#services
    const startedMs = clock.now()
    const requestId = requestIdOf(request.headers['x-request-id'])
    const path = request.url?.split('?', 1)[0] ?? '/'
    const wide: Record<string, unknown> = {}
    const client = trackPresence(socket)
    let status = 101
    let environment: Environment | '' = ''
    this.#pending.add(socket)
    try {
      const session = await this.#open(request, path, requestId, client, wide).finally(() => {
        this.#pending.delete(socket)
        client.answered()
      })
      environment = session.input.key.policy.environment
      this.#start(session, request, socket, head, requestId)
      Object.assign(wide, await session.over)
    } catch (error) {
      if (error instanceof ClientGone) {
        status = 499
        socket.destroy()
      } else {
        const failure = publicError(error)
        status = failure.status
        wide.errorCode = failure.code
        if (status >= 500) log.error({ requestId, code: failure.code, err: failure.cause ?? error }, failure.message)
        rejectUpgrade(socket, failure, requestId)
      }
    }
    const durationMs = clock.now() - startedMs
    if (metrics) recordSession(metrics, wide, { status, environment, durationMs })
    log.info({ requestId, method: request.method, path, ...wide, status, durationMs }, 'request')
  }

  async #open(
    request: IncomingMessage,
    path: string,
    requestId: string,
    client: ClientPresence,
    wide: Record<string, unknown>,
  ): Promise<Session> {
    const { headers } = request
    // Clients that try a WebSocket first fall back to plain HTTP immediately on 426, and only on that status.
    if (path !== realtimePath)
      throw new GatewayError('upgrade_required', `There is no WebSocket at ${path}: send a plain HTTP request.`)
    const { origins } = this.#services.config.realtime
    if (origins && headers.origin !== undefined && !origins.includes(headers.origin))
      throw new GatewayError('origin_not_allowed', `Pages of ${headers.origin} may not open sessions here.`)
    if (!isHandshake(request))
      throw new GatewayError('invalid_request', 'Invalid WebSocket handshake (RFC 6455, version 13).')
    const query = Object.fromEntries(new URLSearchParams(request.url!.slice(path.length)))
    const { apiKey, secret } = await resolveSessionKey(this.#services, authorizationOf(request, query))
    wide.organisation = apiKey.policy.organisationId
    wide.key = apiKey.policy.keyId
    const asked = parseSessionRequest(this.#services.catalog, validate(realtimeQuery, query), secret)
    return this.#sessions.open({ ...asked, key: apiKey, requestId }, client)
  }

  #start(session: Session, request: IncomingMessage, socket: Duplex, head: Buffer, requestId: string): void {
    const own = { ...baseHeaders(requestId, true), ...session.headers }
    const addHeaders = (lines: string[]) => {
      for (const [name, value] of Object.entries(own)) lines.push(`${name}: ${value}`)
    }
    // The upgrade is answered synchronously within this call.
    this.#sockets.once('headers', addHeaders)
    let isUpgraded = false
    this.#sockets.handleUpgrade(request, socket, head, webSocket => {
      isUpgraded = true
      session.start(webSocket)
    })
    this.#sockets.off('headers', addHeaders)
    if (!isUpgraded) session.abandon()
  }
}

/** Whether the request is a valid WebSocket handshake (RFC 6455, 4.2.1). */
function isHandshake({ method, headers }: IncomingMessage): boolean {
  const offered = headers['sec-websocket-protocol']?.split(/[ \t]*,[ \t]*/) ?? []
  return (
    method === 'GET' &&
    validSocketKey.test(headers['sec-websocket-key'] ?? '') &&
    headers['sec-websocket-version'] === '13' &&
    offered.every(name => validSubprotocol.test(name)) &&
    new Set(offered).size === offered.length
  )
}

/** The header of the key: the request's own, or one built from a page's subprotocol. */
function authorizationOf({ headers }: IncomingMessage, query: Record<string, string>): string | undefined {
  const sent = keyHeader(headers)
  if (sent !== undefined) return sent
  const offered = (headers['sec-websocket-protocol'] ?? '').split(',').map(protocol => protocol.trim())
  const key = offered.find(protocol => protocol.startsWith(keyPrefix))
  if (key !== undefined) return `Bearer ${key.slice(keyPrefix.length)}`
  if (Object.values(query).some(value => /^(svc_[sp]k|svc_play|ek)_/.test(value))) {
    const message =
      'Keys are not accepted in the URL, because URLs are logged. Send the key as `Authorization: Bearer <key>` or `x-api-key: <key>`, or from a page as the subprotocol `openai-insecure-api-key.<key>`.'
    throw new GatewayError('missing_api_key', message)
  }
  return undefined
}

/**
 * The presence of a client that awaits an upgrade: gone once its connection closed or ended, until it is `answered`.
 */
function trackPresence(socket: Duplex): ClientPresence & { answered(): void } {
  const listeners: (() => void)[] = []
  const client = {
    gone: false,
    onGone: (listener: () => void) => void (client.gone ? listener() : listeners.push(listener)),
    answered: () => void socket.off('readable', detectEnd),
  }
  const disconnect = () => {
    client.gone = true
    for (const listener of listeners.splice(0)) listener()
  }
  // The end of a connection is not reported unless it is read. Early data waits in the stream.
  const detectEnd = () => {
    if (socket.readableLength === 0) socket.read()
  }
  socket.on('error', disconnect)
  socket.once('end', disconnect)
  socket.once('close', disconnect)
  socket.on('readable', detectEnd)
  return client
}

function rejectUpgrade(socket: Duplex, failure: GatewayError, requestId: string): void {
  const body = JSON.stringify(failure.body)
  const headers: Record<string, string> = {
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
    ...baseHeaders(requestId, true),
    ...failure.headers,
    ...(failure.status === 401 && { 'www-authenticate': 'Bearer' }),
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  const text = `HTTP/1.1 ${failure.status} ${STATUS_CODES[failure.status]}\r\n${lines.join('\r\n')}\r\n\r\n${body}`
  const timer = setTimeout(() => socket.destroy(), rejectionMs)
  timer.unref()
  socket.once('close', () => clearTimeout(timer))
  socket.end(text)
  // Close as soon as the client does.
  socket.resume()
}
