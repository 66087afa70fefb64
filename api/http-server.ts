import http, { IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../shared/base/config.ts'
import { GatewayError } from '../shared/base/errors.ts'
import { newId } from '../shared/base/ids.ts'
import { Slab } from '../shared/base/slab.ts'
import { addMs, elapsedMs, type MonotonicMs, preciseMonotonic } from '../shared/base/time.ts'
import { PieceCollector, PieceCounter } from '../shared/io/byte-budget.ts'
import { errorResponse } from './error-response.ts'
import { baseHeaders } from './http-response.ts'
import { isWebSocketUpgrade } from './sockets/handshake.ts'

/** Creates the HTTP server of a web process, with its limits on connections and on how requests arrive. */
export function createHttpServer(
  config: Pick<Config, 'keepAliveTimeoutMs' | 'maxConnections' | 'trustedProxies'>,
  handle: RequestListener,
): { server: http.Server; connections: Connections } {
  const server = http.createServer({
    IncomingMessage: HttpRequest,
    keepAliveTimeout: config.keepAliveTimeoutMs,
    headersTimeout: 20_000,
    // For uploads; slower senders than the minimum rate are rejected earlier.
    requestTimeout: 900_000,
    connectionsCheckingInterval: 10_000,
    noDelay: true,
    shouldUpgradeCallback: isWebSocketUpgrade,
  })
  const connections = new Connections(server, config)
  server.on('request', connections.limit(handle))
  return { server, connections }
}

/** A turn of the event loop this short polled the kernel for new connections just before its end. */
const quietTurnMs = 0.2
/** The listener closes after this time, even if the server is never quiet. */
const maxQuietWaitMs = 500
const sweepEveryMs = 50

/** Requests of one connection that may be in flight: Node starts each as it arrives, before earlier ones are answered. */
const maxActiveResponses = 8
/** Further requests that are ignored while the connection ends after the responses in progress. */
const maxIgnoredRequests = 64
/** An address with more than this part of the connections idle loses its own first when the process is full. */
const idleShare = 1 / 16

/** The connections of one address that are idle. */
type Peer = { address: string; open: number; idle: number }

/**
 * `readBytes`: bytes read from it when its last response ended. `idleSinceMs`: that time, or the time at which
 * responses began to announce the close, whichever is later.
 */
type Connection = {
  peer: Peer
  activeResponses: number
  ignoredRequests: number
  idleSinceMs: MonotonicMs
  readBytes: number
}

type ConnectionLimits = {
  maxConnections: number
  /** With proxies in front, the address of a connection is not its client's. */
  trustedProxies: number
}

/**
 * The connections of an HTTP server. A full process closes the longest idle one for a new one. At the end, closes them
 * without losing a request: every response announces that its connection closes, the listener closes once the accept
 * queue is empty, and idle connections close last.
 */
class Connections {
  readonly #server: Server
  readonly #limits: ConnectionLimits
  readonly #maxPeerIdle: number
  readonly #open = new Map<Socket, Connection>()
  /** The connections without a request in progress, the longest idle one first. */
  readonly #idle = new Set<Socket>()
  readonly #peers = new Map<string, Peer>()
  /** Peers beyond their share of idle connections. */
  #greedyPeers = 0
  readonly #activeResponses = new Slab<ServerResponse>()
  #isClosing = false
  #accepted = 0
  /** Open connections, those of WebSockets included. */
  #size = 0

  /** Must be constructed before the server's own listeners are added. */
  constructor(server: Server, limits: ConnectionLimits) {
    this.#server = server
    this.#limits = limits
    this.#maxPeerIdle = Math.ceil(limits.maxConnections * idleShare)
    this.#limitServer()
    server.on('connection', (socket: Socket) => this.#accept(socket))
    // The connection is a WebSocket from now on.
    server.on('upgrade', (_request, socket) => this.#forget(socket as Socket))
  }

  get size(): number {
    return this.#open.size
  }

  /** Passes on the requests that their connections may start. */
  limit(handle: RequestListener): RequestListener {
    return (request, response) => {
      const { socket } = request
      const connection = this.#open.get(socket)
      if (!connection) {
        if (!socket.destroyed) handle(request, response)
      } else if (connection.ignoredRequests > 0 || connection.activeResponses >= maxActiveResponses)
        this.#ignore(request, response, connection)
      else {
        this.#trackResponse(socket, connection, response)
        handle(request, response)
      }
    }
  }

  /** Marks every response whose head was not sent yet, and every later one, as the last of its connection. */
  announceClose(): void {
    this.#isClosing = true
    for (const connection of this.#open.values()) connection.idleSinceMs = preciseMonotonic.now()
    for (const response of this.#activeResponses.values()) if (!response.headersSent) response.shouldKeepAlive = false
  }

  /**
   * Closes the listener. Connections that the kernel has accepted and Node has not would be reset by that. Node accepts
   * one connection per turn of its event loop, so the listener closes at the end of a short turn without one.
   */
  async closeListener(): Promise<void> {
    await this.#quietTurn()
    // http.Server's own close() also closes idle connections immediately.
    NetServer.prototype.close.call(this.#server)
  }

  /** Closes connections once they have been idle for `idleMs`; resolves when none is left. */
  async closeIdle(idleMs: number): Promise<void> {
    while (this.#open.size > 0) {
      if (this.#listIdle(idleMs).length > 0) {
        // By then, requests that have arrived are registered and are not cut off.
        await this.#quietTurn()
        for (const socket of this.#listIdle(idleMs)) socket.destroy()
      }
      await sleep(sweepEveryMs)
    }
  }

  #listIdle(idleMs: number): Socket[] {
    const nowMs = preciseMonotonic.now()
    const hasExpired = ({ idleSinceMs }: Connection) => elapsedMs(idleSinceMs, nowMs) >= idleMs
    const idle = [...this.#open].filter(([socket, state]) => isIdle(socket, state) && hasExpired(state))
    return idle.map(([socket]) => socket)
  }

  #accept(socket: Socket): void {
    this.#accepted++
    this.#size++
    socket.once('close', () => {
      this.#size--
      this.#forget(socket)
      this.#limitServer()
    })
    if (this.#size > this.#limits.maxConnections) {
      const idle = this.#findOldestIdle()
      // Without an idle one, the new one is refused.
      if (!idle) return void socket.destroy()
      idle.destroy()
      this.#forget(idle)
    }
    const peer = this.#peerOf(socket)
    peer.open++
    const idleSinceMs = preciseMonotonic.now()
    const connection = { peer, activeResponses: 0, ignoredRequests: 0, idleSinceMs, readBytes: 0 }
    this.#open.set(socket, connection)
    this.#setIdle(socket, connection)
  }

  #forget(socket: Socket): void {
    const connection = this.#open.get(socket)
    if (!connection) return
    this.#setBusy(socket, connection)
    this.#open.delete(socket)
    const { peer } = connection
    if (--peer.open === 0) this.#peers.delete(peer.address)
  }

  #peerOf({ remoteAddress = '' }: Socket): Peer {
    const address = this.#limits.trustedProxies === 0 ? remoteAddress : ''
    const known = this.#peers.get(address)
    if (known) return known
    const peer = { address, open: 0, idle: 0 }
    this.#peers.set(address, peer)
    return peer
  }

  #setIdle(socket: Socket, { peer }: Connection): void {
    this.#idle.add(socket)
    if (++peer.idle === this.#maxPeerIdle + 1) this.#greedyPeers++
    if (this.#idle.size === 1) this.#limitServer()
  }

  #setBusy(socket: Socket, { peer }: Connection): void {
    if (!this.#idle.delete(socket)) return
    if (peer.idle-- === this.#maxPeerIdle + 1) this.#greedyPeers--
    if (this.#idle.size === 0) this.#limitServer()
  }

  #findOldestIdle(): Socket | undefined {
    for (const socket of this.#idle)
      if (this.#greedyPeers === 0 || this.#open.get(socket)!.peer.idle > this.#maxPeerIdle) return socket
    return undefined
  }

  /** One connection above the maximum is accepted where an idle one can be closed for it. */
  #limitServer(): void {
    this.#server.maxConnections = this.#limits.maxConnections + (this.#idle.size > 0 ? 1 : 0)
  }

  #trackResponse(socket: Socket, connection: Connection, response: ServerResponse): void {
    if (connection.activeResponses++ === 0) this.#setBusy(socket, connection)
    const key = this.#activeResponses.add(response)
    if (this.#isClosing) response.shouldKeepAlive = false
    response.once('close', () => {
      this.#activeResponses.remove(key)
      connection.activeResponses--
      connection.readBytes = socket.bytesRead
      if (this.#isClosing) connection.idleSinceMs = preciseMonotonic.now()
      if (connection.activeResponses === 0 && this.#open.has(socket) && !socket.destroyed)
        this.#setIdle(socket, connection)
    })
  }

  /** Answers the first request beyond the limit, whose response ends the connection; ignores those after it. */
  #ignore({ url = '/', headers, socket }: IncomingMessage, response: ServerResponse, connection: Connection): void {
    connection.ignoredRequests++
    if (connection.ignoredRequests > maxIgnoredRequests) socket.destroy()
    if (connection.ignoredRequests > 1) return
    const message = `At most ${maxActiveResponses} requests of a connection may be in flight. Wait for their responses.`
    const failure = new GatewayError('rate_limit_exceeded', message, { headers: { connection: 'close' } })
    const requestId = requestIdOf(headers['x-request-id'])
    const { status, headers: own, body } = errorResponse(failure, url.split('?', 1)[0]!, requestId)
    const type = { 'content-type': 'application/json; charset=utf-8', 'content-length': Buffer.byteLength(body) }
    response.writeHead(status, { ...baseHeaders(requestId, true), ...type, ...own })
    response.end(body)
  }

  /** Resolves at the end of a short turn of the event loop without a new connection. */
  async #quietTurn(): Promise<void> {
    const deadlineMs = addMs(preciseMonotonic.now(), maxQuietWaitMs)
    for (;;) {
      const accepted = this.#accepted
      const startedMs = preciseMonotonic.now()
      await setImmediate()
      const nowMs = preciseMonotonic.now()
      const isQuiet = this.#accepted === accepted && elapsedMs(startedMs, nowMs) < quietTurnMs
      if (isQuiet || nowMs > deadlineMs) return
    }
  }
}

/** Whether no response is in progress on a connection and no byte of a request has arrived. */
function isIdle(socket: Socket, { activeResponses, readBytes }: Connection): boolean {
  return activeResponses === 0 && socket.bytesRead === readBytes
}

/**
 * A request that joins the pieces of its body into blocks until a handler reads it. Node buffers up to 64 KiB of separate
 * pieces: as pieces of one byte, these take 20 MB.
 */
export class HttpRequest extends IncomingMessage {
  /** What arrived after the first piece and was not asked for yet. */
  #waiting: PieceCollector | null = null
  #isRead = false
  /** The pieces that waited together. */
  #joined = 0

  override push(piece: Buffer | null): boolean {
    if (this.#isRead || this.readableLength === 0) return super.push(piece)
    if (piece === null) {
      this.#flush()
      return super.push(null)
    }
    this.#waiting ??= new PieceCollector()
    this.#waiting.add(piece)
    this.#joined++
    return this.readableLength + this.#waiting.bytes < this.readableHighWaterMark
  }

  override _read(size: number): void {
    this.#isRead = true
    this.#flush()
    super._read(size)
  }

  /** Counts the pieces of a body for its reader, with those that it will get as one. */
  static countPieces(request: IncomingMessage): PieceCounter {
    return new PieceCounter({ joined: request instanceof HttpRequest ? request.#joined : 0 })
  }

  #flush(): void {
    const waiting = this.#waiting
    this.#waiting = null
    if (waiting) super.push(waiting.take())
  }
}

/** The request id: a valid inbound one, otherwise a new one. */
export function requestIdOf(inbound: unknown): string {
  return typeof inbound === 'string' && validRequestId.test(inbound) ? inbound : newId('req')
}

const validRequestId = /^[A-Za-z0-9._:-]{1,128}$/

/** A URL whose path has single slashes: a base URL that ends in one makes two of them. */
export function withSingleSlashes(url: string): string {
  if (!url.includes('//')) return url
  const pathEnd = url.indexOf('?')
  const path = pathEnd < 0 ? url : url.slice(0, pathEnd)
  return path.replace(/\/{2,}/g, '/') + url.slice(path.length)
}
