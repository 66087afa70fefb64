import type { Server, ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import { Slab } from '../shared/base/slab.ts'

/** A turn of the event loop this short polled the kernel for new connections just before its end. */
const quietTurnMs = 0.2
/** The listener closes after this time, even if the server is never quiet. */
const maxQuietWaitMs = 500
const sweepEveryMs = 50

/**
 * `readBytes`: bytes read from it when its last response ended. `idleSinceMs`: that time, or the time at which
 * responses began to announce the close, whichever is later.
 */
type Connection = { activeResponses: number; idleSinceMs: number; readBytes: number }

/**
 * Closes the connections of an HTTP server without losing a request: every response announces that its connection
 * closes, the listener closes once the accept queue is empty, and idle connections close last.
 */
export class Connections {
  readonly #server: Server
  readonly #open = new Map<Socket, Connection>()
  readonly #activeResponses = new Slab<ServerResponse>()
  #isClosing = false
  #accepted = 0

  /** Must be constructed before the server's own listeners are added. */
  constructor(server: Server) {
    this.#server = server
    server.on('connection', (socket: Socket) => {
      this.#accepted++
      this.#open.set(socket, { activeResponses: 0, idleSinceMs: performance.now(), readBytes: 0 })
      socket.once('close', () => this.#open.delete(socket))
    })
    server.on('request', (request, response) => this.#trackResponse(request.socket, response))
    // The connection is a WebSocket from now on.
    server.on('upgrade', (_request, socket) => this.#open.delete(socket as Socket))
  }

  get size(): number {
    return this.#open.size
  }

  /** Marks every response whose head was not sent yet, and every later one, as the last of its connection. */
  announceClose(): void {
    this.#isClosing = true
    for (const connection of this.#open.values()) connection.idleSinceMs = performance.now()
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
      if (this.#idleSince(performance.now() - idleMs).length > 0) {
        // By then, requests that have arrived are registered and are not cut off.
        await this.#quietTurn()
        for (const socket of this.#idleSince(performance.now() - idleMs)) socket.destroy()
      }
      await sleep(sweepEveryMs)
    }
  }

  #idleSince(beforeMs: number): Socket[] {
    const idle = [...this.#open].filter(([socket, state]) => isIdle(socket, state) && state.idleSinceMs <= beforeMs)
    return idle.map(([socket]) => socket)
  }

  #trackResponse(socket: Socket, response: ServerResponse): void {
    const connection = this.#open.get(socket)
    if (!connection) return
    connection.activeResponses++
    const key = this.#activeResponses.add(response)
    if (this.#isClosing) response.shouldKeepAlive = false
    response.once('close', () => {
      this.#activeResponses.remove(key)
      connection.activeResponses--
      connection.readBytes = socket.bytesRead
      if (this.#isClosing) connection.idleSinceMs = performance.now()
    })
  }

  /** Resolves at the end of a short turn of the event loop without a new connection. */
  async #quietTurn(): Promise<void> {
    const deadlineMs = performance.now() + maxQuietWaitMs
    for (;;) {
      const accepted = this.#accepted
      const startedMs = performance.now()
      await setImmediate()
      const nowMs = performance.now()
      const isQuiet = this.#accepted === accepted && nowMs - startedMs < quietTurnMs
      if (isQuiet || nowMs > deadlineMs) return
    }
  }
}

/** Whether no response is in progress on a connection and no byte of a request has arrived. */
function isIdle(socket: Socket, { activeResponses, readBytes }: Connection): boolean {
  return activeResponses === 0 && socket.bytesRead === readBytes
}
