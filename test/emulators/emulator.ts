import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'

/** One request as the emulator received it; `aborted` settles when the caller went away before the answer was whole. */
export type Recorded = {
  method: string
  path: string
  query: URLSearchParams
  headers: http.IncomingHttpHeaders
  raw: Buffer
  /** The parsed JSON body, or null. */
  // biome-ignore lint/suspicious/noExplicitAny: the tests read bodies of every shape
  body: any
  receivedAt: number
  aborted: Promise<void>
}
export type Reply = (request: Recorded, response: http.ServerResponse) => void | Promise<void>

/** An upstream provider on a local port: records every request, answers by its default reply or by queued one-off replies. */
export class Emulator {
  readonly requests: Recorded[] = []
  readonly url: string
  readonly #server: http.Server
  #queue: Reply[] = []

  private constructor(server: http.Server) {
    this.#server = server
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  /** Listens on a free port of loopback. `reply` answers whatever no queued reply does. */
  static async start(reply: Reply, port = 0): Promise<Emulator> {
    let emulator: Emulator | undefined
    const server = http.createServer((request, response) => {
      if (emulator) void emulator.#serve(request, response, reply)
    })
    server.keepAliveTimeout = 60_000
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    emulator = new Emulator(server)
    return emulator
  }

  /** Answers the coming requests with these replies, one each, before the default reply is used again. */
  next(...replies: Reply[]): void {
    this.#queue.push(...replies)
  }

  /** Forgets recorded requests and queued replies. */
  reset(): void {
    this.requests.length = 0
    this.#queue = []
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse, fallback: Reply): Promise<void> {
    const aborted = new Promise<void>(resolve => {
      response.once('close', () => {
        if (!response.writableFinished) resolve()
      })
    })
    const raw = await buffer(request).catch(() => null)
    if (!raw) return // It was given up while it was sent.
    const url = new URL(request.url ?? '/', 'http://emulator')
    const recorded: Recorded = {
      method: request.method ?? '',
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      raw,
      body: parse(raw),
      receivedAt: Date.now(),
      aborted,
    }
    this.requests.push(recorded)
    await (this.#queue.shift() ?? fallback)(recorded, response)
  }
}

function parse(raw: Buffer): unknown {
  try {
    return JSON.parse(raw.toString())
  } catch {
    return null
  }
}

/** A JSON answer. */
export function json(status: number, body: unknown, headers: Record<string, string> = {}): Reply {
  return (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
  }
}

/** An answer that is no JSON, such as the page of a proxy on the way. */
export function text(status: number, body: string, headers: Record<string, string> = {}): Reply {
  return (_request, response) => void response.writeHead(status, { 'content-type': 'text/html', ...headers }).end(body)
}

/** Breaks the connection without an answer. */
export const reset: Reply = (_request, response) => {
  response.socket?.resetAndDestroy()
}

/** Never answers. */
export const hang: Reply = () => {}

/** Answers later. */
export function after(delayMs: number, reply: Reply): Reply {
  return async (request, response) => {
    await sleep(delayMs)
    await reply(request, response)
  }
}

/** How the payloads of server-sent events are written. */
export type Framing = {
  eol?: '\n' | '\r\n' | '\r'
  /** Lines before every event, such as comments and other fields. */
  before?: string[]
  /** Without the space after `data:`. */
  tight?: boolean
  /** JSON spread over several data lines. */
  spread?: boolean
  /** A byte-order mark first. */
  mark?: boolean
  /** Without the blank line after the last event. */
  unended?: boolean
}

/** The text of server-sent events with these payloads: objects, or texts as they are. */
export function framed(payloads: (object | string)[], framing: Framing = {}): string {
  const { eol = '\n', before = [], tight, spread, mark, unended } = framing
  const blocks = payloads.map(payload => {
    const data = typeof payload === 'string' ? payload : JSON.stringify(payload, null, spread ? 1 : 0)
    const lines = data.split('\n').map(line => `data:${tight ? '' : ' '}${line}`)
    return [...before, ...lines, ''].join(eol)
  })
  return `${mark ? '\uFEFF' : ''}${blocks.join(eol)}${unended ? '' : eol}`
}

/** The bytes of a text in packets of this many, each sent once the one before has left. */
export function dripped(text: string, size: number): Reply {
  return async (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const bytes = Buffer.from(text)
    for (let from = 0; from < bytes.length && !response.destroyed; from += size) {
      await new Promise(resolve => response.write(bytes.subarray(from, from + size), resolve))
      await turn()
    }
    response.end()
  }
}

/** Raw SSE text, written piece by piece as given; `end: 'cut'` breaks the connection after the last piece, `'hang'` leaves it open. */
export function events(
  pieces: (string | Buffer)[],
  options: { intervalMs?: number; end?: 'close' | 'cut' | 'hang'; headers?: Record<string, string> } = {},
): Reply {
  return async (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', ...options.headers })
    response.flushHeaders()
    for (const piece of pieces) {
      if (response.destroyed) return
      response.write(piece)
      await (options.intervalMs ? sleep(options.intervalMs) : turn())
    }
    if (options.end === 'cut') response.socket?.resetAndDestroy()
    else if (options.end !== 'hang') response.end()
  }
}
