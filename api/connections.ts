import type { Server, ServerResponse } from 'node:http'
import { Server as NetServer, type Socket } from 'node:net'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import { Slab } from '../shared/base/slab.ts'

/** A turn of the event loop this short has asked the kernel for new connections just before its end. */
const quietTurnMs = 0.2
/** On a server that is never quiet, the listener closes after this time. */
const maxQuietWaitMs = 500
const sweepEveryMs = 50

/**
 * `readBytes`: what had been read of it when its last answer ended; `idleSinceMs`: when that was, or when answers began to announce
 * the end, whichever was later.
 */
type Connection = { answering: number; idleSinceMs: number; readBytes: number }

/**
 * The connections of an HTTP server, and how they end without losing a request: every answer announces that its connection
 * closes, the listener closes when nobody waits to be accepted, and connections that were idle for long close last.
 */
export class Connections {
  readonly #server: Server
  readonly #open = new Map<Socket, Connection>()
  readonly #answering = new Slab<ServerResponse>()
  #isClosing = false
  #accepted = 0

  /** To be made before the server's own listeners are added. */
  constructor(server: Server) {
    this.#server = server
    server.on('connection', (socket: Socket) => {
      this.#accepted++
      this.#open.set(socket, { answering: 0, idleSinceMs: performance.now(), readBytes: 0 })
      socket.once('close', () => this.#open.delete(socket))
    })
    server.on('request', (request, response) => this.#answer(request.socket, response))
    // A WebSocket from now on.
    server.on('upgrade', (_request, socket) => this.#open.delete(socket as Socket))
  }

  get size(): number {
    return this.#open.size
  }

  /** Makes every answer whose head has not left yet, and every later one, the last of its connection. */
  announceClose(): void {
    this.#isClosing = true
    for (const connection of this.#open.values()) connection.idleSinceMs = performance.now()
    for (const response of this.#answering.values()) if (!response.headersSent) response.shouldKeepAlive = false
  }

  /**
   * Closes the listener. What the kernel has accepted and Node has not would be reset with it. Node accepts one connection a
   * turn of its event loop, so the listener closes at the end of a short turn that brought none.
   */
  async closeListener(): Promise<void> {
    await this.#quietTurn()
    // http.Server's own close() also closes idle connections, however young.
    NetServer.prototype.close.call(this.#server)
  }

  /** Closes connections once they have been idle for `idleMs`, and resolves when none is left. */
  async closeIdle(idleMs: number): Promise<void> {
    while (this.#open.size > 0) {
      if (this.#idleSince(performance.now() - idleMs).length > 0) {
        // Requests that have arrived are known then, and are not cut off.
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

  #answer(socket: Socket, response: ServerResponse): void {
    const connection = this.#open.get(socket)
    if (!connection) return
    connection.answering++
    const key = this.#answering.add(response)
    if (this.#isClosing) response.shouldKeepAlive = false
    response.once('close', () => {
      this.#answering.remove(key)
      connection.answering--
      connection.readBytes = socket.bytesRead
      if (this.#isClosing) connection.idleSinceMs = performance.now()
    })
  }

  /** Resolves at the end of a short turn of the event loop that brought no connection. */
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

/** Whether nothing is answered on a connection, and no request is on its way: not even the first bytes of one. */
function isIdle(socket: Socket, { answering, readBytes }: Connection): boolean {
  return answering === 0 && socket.bytesRead === readBytes
}
