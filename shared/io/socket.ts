import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { WebSocket } from 'ws'

export type { WebSocket } from 'ws'

/**
 * What both sides of a session have in common: the largest message, and how long the other side may take to answer a close
 * before its connection is cut. Nothing is compressed: sound does not get smaller.
 */
export const sessionSockets = { maxPayload: 16 * 1024 * 1024, closeTimeout: 10_000, perMessageDeflate: false }

const mostRefusalBytes = 64 * 1024

/** The server answered the upgrade with something else. */
export class SocketRefused extends Error {
  override name = 'SocketRefused'
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: string
  constructor(status: number, headers: IncomingMessage['headers'], body: string) {
    super(`the server answered the upgrade with ${status}`)
    this.status = status
    this.headers = headers
    this.body = body
  }
}

/** No answer to the upgrade came in time. */
export class SocketTimeout extends Error {
  override name = 'SocketTimeout'
}

export type SocketAddress = {
  url: string
  headers: Record<string, string>
  /** How long the server may take to answer; null = for ever. */
  handshakeTimeoutMs: number | null
  /** In place of a connection of its own. */
  connection?: () => Duplex
}

/**
 * Opens a WebSocket, paused: whoever waited for it listens before the first message comes. Redirects are not followed.
 * Rejects with a SocketRefused, a SocketTimeout, the fault of the connection, or the signal's reason once it is aborted.
 */
export function openSocket({ url, headers, handshakeTimeoutMs, connection }: SocketAddress, signal: AbortSignal) {
  return new Promise<WebSocket>((resolve, reject) => {
    signal.throwIfAborted()
    const socket = new WebSocket(url, {
      ...sessionSockets,
      headers,
      followRedirects: false,
      // Passed on to the HTTP client, whose type knows sockets only; any duplex stream does.
      ...(connection && { createConnection: connection as never }),
    })
    const settle = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', abort)
    }
    const fail = (reason: unknown) => {
      settle()
      reject(reason)
      socket.terminate()
    }
    const abort = () => fail(signal.reason)
    // One for the whole answer: a server that sends it byte by byte is not waited for either.
    const late = () => fail(new SocketTimeout(`no answer to the upgrade within ${handshakeTimeoutMs} ms`))
    const timer = handshakeTimeoutMs === null ? undefined : setTimeout(late, handshakeTimeoutMs)
    signal.addEventListener('abort', abort)
    socket.once('open', () => {
      settle()
      socket.pause()
      resolve(socket)
    })
    socket.once('unexpected-response', (_request, response) => void refusalOf(response).then(fail))
    socket.on('error', error => {
      settle()
      reject(error)
    })
  })
}

/**
 * The bytes that a socket's connection has brought and taken so far, also those of messages that are not whole yet; undefined
 * where it is no connection of the network.
 */
export function trafficOf(socket: WebSocket): { readBytes: number; takenBytes: number } | undefined {
  // The library has no public name for it.
  const { _socket: connection } = socket as unknown as { _socket: Socket | Duplex | null }
  if (!(connection instanceof Socket)) return undefined
  return { readBytes: connection.bytesRead, takenBytes: connection.bytesWritten - connection.writableLength }
}

async function refusalOf(response: IncomingMessage): Promise<SocketRefused> {
  let body = ''
  try {
    for await (const part of response.setEncoding('utf8')) {
      body += part
      if (body.length >= mostRefusalBytes) break
    }
  } catch {
    // What came of it will do.
  }
  return new SocketRefused(response.statusCode ?? 0, response.headers, body.slice(0, mostRefusalBytes))
}
