import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { WebSocket } from 'ws'
import { openTunnel, targetOf } from './tunnel.ts'

export type { WebSocket } from 'ws'

/**
 * Settings shared by both sides of a session: the maximum message size, and how long the other side may take to answer
 * a close before its connection is destroyed. Compression is disabled: audio does not get smaller.
 */
const sessionSockets = { maxPayload: 16 * 1024 * 1024, closeTimeout: 10_000, perMessageDeflate: false }

/**
 * Settings of the server side: bounds on the pieces and fragments that are held of one message, which the largest
 * messages do not reach in packets or fragments of ordinary size; and one frame per turn of the event loop, so that a
 * flood of tiny frames leaves time for others.
 */
export const servedSockets = {
  ...sessionSockets,
  maxBufferedChunks: 32 * 1024,
  maxFragments: 4 * 1024,
  allowSynchronousEvents: false,
}

const maxRefusalBytes = 64 * 1024

/** The server answered the upgrade request with another response. */
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

/** The upgrade request timed out. */
export class SocketTimeout extends Error {
  override name = 'SocketTimeout'
}

export type SocketAddress = {
  url: string
  headers: Record<string, string>
  /** Timeout of the handshake; null = none. */
  handshakeTimeoutMs: number | null
  /** The HTTP proxy it goes through; absent or null = none. */
  proxy?: string | null
  /** Replaces the default network connection. */
  connection?: () => Duplex
}

/** The maximum time until a proxy has connected. */
const tunnelTimeoutMs = 10_000

/**
 * Opens a WebSocket, paused, so that the caller can attach listeners before the first message. Redirects are not
 * followed. Rejects with a SocketRefused, a SocketTimeout, the connection error, or the signal's reason if it is
 * aborted.
 */
export async function openSocket(address: SocketAddress, signal: AbortSignal): Promise<WebSocket> {
  if (!address.proxy) return connectSocket(address, signal)
  const url = new URL(address.url)
  const tunnel = await openTunnel(address.proxy, targetOf(url), tunnelTimeoutMs)
  if (signal.aborted) tunnel.destroy()
  const isSecure = url.protocol === 'https:' || url.protocol === 'wss:'
  const connection = () => (isSecure ? connectTls({ socket: tunnel, servername: targetOf(url).host }) : tunnel)
  return connectSocket({ ...address, connection }, signal)
}

function connectSocket({ url, headers, handshakeTimeoutMs, connection }: SocketAddress, signal: AbortSignal) {
  return new Promise<WebSocket>((resolve, reject) => {
    signal.throwIfAborted()
    const socket = new WebSocket(url, {
      ...sessionSockets,
      headers,
      followRedirects: false,
      // Passed to the HTTP client, whose type accepts sockets only; any duplex stream works.
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
    // One timer for the whole response: it also ends a server that sends it byte by byte.
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
 * The bytes that a socket's connection has received and sent so far, including those of incomplete messages; undefined
 * if it is not a network connection.
 */
export function trafficOf(socket: WebSocket): { readBytes: number; takenBytes: number } | undefined {
  // The library exposes it only as a private field.
  const { _socket: connection } = socket as unknown as { _socket: Socket | Duplex | null }
  if (!(connection instanceof Socket)) return undefined
  return { readBytes: connection.bytesRead, takenBytes: connection.bytesWritten - connection.writableLength }
}

async function refusalOf(response: IncomingMessage): Promise<SocketRefused> {
  let body = ''
  try {
    for await (const part of response.setEncoding('utf8')) {
      body += part
      if (body.length >= maxRefusalBytes) break
    }
  } catch {
    // The part received so far is sufficient.
  }
  return new SocketRefused(response.statusCode ?? 0, response.headers, body.slice(0, maxRefusalBytes))
}

const maxReasonBytes = 123

/** Truncates a reason to the size limit of a close frame. */
export function truncateReason(reason: string): Buffer {
  const bytes = Buffer.from(reason)
  if (bytes.length <= maxReasonBytes) return bytes
  // A truncated UTF-8 character would invalidate the whole frame.
  let end = maxReasonBytes
  while ((bytes[end]! & 0xc0) === 0x80) end--
  return bytes.subarray(0, end)
}
