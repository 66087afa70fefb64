import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { GatewayError } from '../../shared/base/errors.ts'
import type { ClientPresence } from '../../shared/engine/response-writer.ts'
import { keyHeader, missingKeyError } from '../auth/api-keys.ts'
import { errorResponse } from '../error-response.ts'
import { baseHeaders } from '../http-response.ts'

/** The handshake of a WebSocket, up to its acceptance or refusal. */

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

/** Asserts that the request is a valid WebSocket handshake (RFC 6455, 4.2.1). Throws 400. */
export function assertHandshake({ method, headers }: IncomingMessage): void {
  const offered = headers['sec-websocket-protocol']?.split(',').map(name => name.trim()) ?? []
  const isValid =
    method === 'GET' &&
    validSocketKey.test(headers['sec-websocket-key'] ?? '') &&
    headers['sec-websocket-version'] === '13' &&
    offered.every(name => validSubprotocol.test(name)) &&
    new Set(offered).size === offered.length
  if (!isValid) throw new GatewayError('invalid_request', 'Invalid WebSocket handshake (RFC 6455, version 13).')
}

/** The header of the key: the request's own, or one built from a page's subprotocol. Throws 401 if there is none. */
export function authorizationOf(request: IncomingMessage): string {
  const sent = keyHeader(request.headers)
  if (sent) return sent
  const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map(protocol => protocol.trim())
  const key = offered.find(protocol => protocol.startsWith(keyPrefix))
  if (key === undefined) throw missingKeyError(request, 'socket')
  return `Bearer ${key.slice(keyPrefix.length)}`
}

/**
 * The presence of a client that awaits an upgrade: gone once its connection closed or ended, until it is `answered`.
 */
export function trackPresence(socket: Duplex): ClientPresence & { answered(): void } {
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

/** Answers an upgrade with an error, in the format of its path, and closes the connection. */
export function rejectUpgrade(socket: Duplex, failure: GatewayError, path: string, requestId: string): void {
  const { status, headers: own, body } = errorResponse(failure, path, requestId)
  const headers: Record<string, string> = {
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    connection: 'close',
    ...baseHeaders(requestId, true),
    ...own,
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  const text = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${lines.join('\r\n')}\r\n\r\n${body}`
  const timer = setTimeout(() => socket.destroy(), rejectionMs)
  timer.unref()
  socket.once('close', () => clearTimeout(timer))
  socket.end(text)
  // Close as soon as the client does.
  socket.resume()
}
