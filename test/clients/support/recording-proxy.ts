import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { createBrotliDecompress, createGunzip, zstdDecompressSync } from 'node:zlib'

/** One request through the proxy and its answer. */
export type Exchange = {
  method: string
  path: string
  headers: http.IncomingHttpHeaders
  // biome-ignore lint/suspicious/noExplicitAny: bodies of every shape
  body: any
  status: number
  answer: string
}

/** A proxy in front of the gateway that keeps what a client sent and got, for clients that show neither. */
export class RecordingProxy {
  readonly exchanges: Exchange[] = []
  readonly url: string
  readonly #server: http.Server

  private constructor(server: http.Server) {
    this.#server = server
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  /** Listens on a free port and forwards to `origin`. */
  static async start(origin: string): Promise<RecordingProxy> {
    let proxy: RecordingProxy | undefined
    const server = http.createServer((request, response) => {
      if (proxy) void proxy.#forward(origin, request, response)
    })
    server.on('upgrade', (request, socket) => {
      if (proxy) proxy.#upgrade(origin, request, socket)
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    proxy = new RecordingProxy(server)
    return proxy
  }

  /** The requests that generate something, in their order. */
  get messages(): Exchange[] {
    return this.exchanges.filter(({ method, path }) => method === 'POST' && path.startsWith('/v1/messages'))
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  async #forward(origin: string, request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const raw = await buffer(request)
    const { host: _, connection: __, ...headers } = request.headers
    const { method = '', url = '/' } = request
    const exchange: Exchange = {
      method,
      path: url,
      headers,
      body: parse(plainBody(raw, headers)),
      status: 0,
      answer: '',
    }
    this.exchanges.push(exchange)
    const upstream = http.request(origin + url, { method, headers })
    upstream.on('error', () => response.destroy())
    response.on('close', () => upstream.destroy())
    upstream.on('response', answer => {
      exchange.status = answer.statusCode!
      response.writeHead(exchange.status, answer.headers)
      plainOf(answer).on('data', (part: Buffer) => {
        exchange.answer += part.toString('latin1')
      })
      answer.on('error', () => response.destroy())
      answer.pipe(response)
    })
    upstream.end(raw)
  }

  /** Forwards a WebSocket; its frames are not kept. */
  #upgrade(origin: string, { method = '', url = '/', headers }: http.IncomingMessage, socket: Duplex): void {
    const exchange: Exchange = { method, path: url, headers, body: null, status: 0, answer: '' }
    this.exchanges.push(exchange)
    const upstream = http.request(origin + url, { method, headers })
    const forwardHead = ({ statusCode, statusMessage, rawHeaders }: http.IncomingMessage) => {
      exchange.status = statusCode!
      const lines = Array.from({ length: rawHeaders.length / 2 }, (_, i) =>
        rawHeaders.slice(2 * i, 2 * i + 2).join(': '),
      )
      socket.write(`HTTP/1.1 ${statusCode} ${statusMessage}\r\n${lines.join('\r\n')}\r\n\r\n`)
    }
    upstream.on('error', () => socket.destroy())
    upstream.on('response', answer => {
      forwardHead(answer)
      answer.pipe(socket)
    })
    upstream.on('upgrade', (answer, other) => {
      forwardHead(answer)
      for (const [from, to] of [
        [socket, other],
        [other, socket],
      ] as const) {
        from.on('error', () => to.destroy())
        from.pipe(to)
      }
    })
    upstream.end()
  }
}

/** The body of an answer as it was before compression. */
function plainOf(answer: http.IncomingMessage): NodeJS.ReadableStream {
  const encoding = answer.headers['content-encoding']
  if (encoding === 'br') return answer.pipe(createBrotliDecompress())
  return encoding === 'gzip' ? answer.pipe(createGunzip()) : answer
}

/** The body of a request as it was before compression. */
function plainBody(raw: Buffer, headers: http.IncomingHttpHeaders): Buffer {
  return headers['content-encoding'] === 'zstd' ? zstdDecompressSync(raw) : raw
}

function parse(raw: Buffer): unknown {
  try {
    return JSON.parse(raw.toString())
  } catch {
    return null
  }
}
