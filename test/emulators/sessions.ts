import { once } from 'node:events'
import http, { type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'

/** A frame as the provider received it. */
export type Frame = { data: Buffer; isBinary: boolean }

/** One session as the provider sees it. */
export class ProviderSession {
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingHttpHeaders
  readonly socket: WebSocket
  /** The connection beneath, to be broken. */
  readonly connection: Socket
  readonly frames: Frame[] = []
  #sent = 0
  /** The client's close code and reason; null while it is open. */
  closed: { code: number; reason: string } | null = null

  constructor(request: http.IncomingMessage, socket: WebSocket) {
    const url = new URL(request.url ?? '/', 'http://emulator')
    this.path = url.pathname
    this.query = url.searchParams
    this.headers = request.headers
    this.socket = socket
    this.connection = request.socket
    socket.on('message', (data: Buffer, isBinary) => this.frames.push({ data, isBinary }))
    socket.on('close', (code, reason) => {
      this.closed = { code, reason: reason.toString() }
    })
    socket.on('error', () => {}) // The close says the rest.
  }

  /** The JSON of every frame received so far. */
  // biome-ignore lint/suspicious/noExplicitAny: events of every shape
  get events(): any[] {
    return this.frames.map(({ data }) => JSON.parse(data.toString()))
  }

  /** Sends an event in a text frame, or in a binary one: every other one with its members in another order, and with spaces. */
  send(event: object, { binary = false } = {}): void {
    const isUsual = this.#sent++ % 2 === 0
    const reversed = () => Object.fromEntries(Object.entries(event).reverse())
    this.socket.send(isUsual ? JSON.stringify(event) : JSON.stringify(reversed(), null, 1), { binary })
  }
}

export type Upgrade = (request: http.IncomingMessage, socket: Socket) => void

/** A provider of realtime sessions on a local port: records every session, and plays `serve` in each. */
export class SessionEmulator {
  readonly sessions: ProviderSession[] = []
  readonly url: string
  readonly #server: http.Server
  readonly #sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false, maxPayload: 64 * 1024 * 1024 })
  #refusals: Upgrade[] = []

  private constructor(server: http.Server) {
    this.#server = server
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  /** `admit` gives the answer to an upgrade that the provider does not take. */
  static async start(
    serve: (session: ProviderSession) => void,
    admit: (request: http.IncomingMessage) => Upgrade | null = () => null,
  ): Promise<SessionEmulator> {
    const server = http.createServer((_request, response) => void response.writeHead(404).end())
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const emulator = new SessionEmulator(server)
    server.on('upgrade', (request, socket, head) => {
      const refuse = emulator.#refusals.shift() ?? admit(request)
      if (refuse) return refuse(request, socket as Socket)
      emulator.#sockets.handleUpgrade(request, socket, head, webSocket => {
        const session = new ProviderSession(request, webSocket)
        emulator.sessions.push(session)
        serve(session)
      })
    })
    return emulator
  }

  /** Answers the coming upgrades with these, one each. */
  next(...refusals: Upgrade[]): void {
    this.#refusals.push(...refusals)
  }

  /** The last session that was opened. Throws when there is none. */
  get last(): ProviderSession {
    const session = this.sessions.at(-1)
    if (!session) throw new Error('no session was opened')
    return session
  }

  async close(): Promise<void> {
    for (const { socket } of this.sessions) socket.terminate()
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

/** Answers an upgrade with a status and a JSON body. */
export function refuse(status: number, body: object = {}, headers: Record<string, string> = {}): Upgrade {
  return (_request, socket) => {
    const text = JSON.stringify(body)
    const own = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)), ...headers }
    const lines = Object.entries(own).map(([name, value]) => `${name}: ${value}\r\n`)
    socket.end(`HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\n${lines.join('')}\r\n${text}`)
  }
}

/** Never answers the upgrade. */
export const hang: Upgrade = () => {}

/** Breaks the connection. */
export const reset: Upgrade = (_request, socket) => void socket.resetAndDestroy()
