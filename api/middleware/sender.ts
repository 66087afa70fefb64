import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../../shared/base/errors.ts'

/** How much of an oversized body is read and thrown away so that the client gets to see the answer. */
export const mostDiscardedBytes = 64 * 1024 * 1024
/** A sender must bring so many bytes in each window of time. */
const minWindowBytes = 256 * 1024
const windowMs = 30_000

/**
 * Calls `refuse` with a 408 once the sender of a request brings less than 256 KiB in half a minute, unless it is us who do
 * not read. Gives back how to stop.
 */
export function watchSender(
  request: IncomingMessage,
  refuse: (error: GatewayError) => void,
  everyMs = windowMs,
): () => void {
  const { socket } = request
  let seen = socket.bytesRead
  const timer = setInterval(() => {
    const read = socket.bytesRead
    if (!request.isPaused() && read - seen < minWindowBytes) refuse(tooSlow())
    seen = read
  }, everyMs)
  return () => clearInterval(timer)
}

/** Reads the rest of a request and throws it away, so that the client gets to see the answer. */
export function discard(request: IncomingMessage): void {
  let bytes = 0
  request.on('data', (part: Buffer) => {
    bytes += part.length
    if (bytes > mostDiscardedBytes) request.destroy()
  })
  // A request that was piped before is paused: its connection would take no other request.
  request.resume()
}

function tooSlow(): GatewayError {
  const message = 'The body came too slowly: less than 256 KiB in half a minute.'
  return new GatewayError('request_timeout', message, { headers: { connection: 'close' } })
}
