import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../../shared/base/errors.ts'

/** Bytes of an oversized body to read and discard so that the client can read the response. */
export const maxDiscardedBytes = 64 * 1024 * 1024
/** Minimum bytes a sender must deliver in each window. */
const minWindowBytes = 256 * 1024
const windowMs = 30_000

/**
 * Calls `refuse` with a 408 once the sender of a request delivers less than 256 KiB in half a minute, unless the
 * gateway itself paused reading. Returns a function to stop.
 */
export function watchSender(
  request: IncomingMessage,
  refuse: (error: GatewayError) => void,
  everyMs = windowMs,
): () => void {
  const { socket } = request
  let lastBytesRead = socket.bytesRead
  const timer = setInterval(() => {
    const bytesRead = socket.bytesRead
    if (!request.isPaused() && bytesRead - lastBytesRead < minWindowBytes) refuse(tooSlowError())
    lastBytesRead = bytesRead
  }, everyMs)
  return () => clearInterval(timer)
}

/** Discards the rest of a request so that the client can read the response. */
export function discardBody(request: IncomingMessage): void {
  let bytes = 0
  request.on('data', (part: Buffer) => {
    bytes += part.length
    if (bytes > maxDiscardedBytes) request.destroy()
  })
  // A request that was piped before is paused: without this, its connection would accept no further request.
  request.resume()
}

function tooSlowError(): GatewayError {
  const message = 'The body was sent too slowly: less than 256 KiB in half a minute.'
  return new GatewayError('request_timeout', message, { headers: { connection: 'close' } })
}
