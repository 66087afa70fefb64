import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { GatewayError } from '../../shared/base/errors.ts'
import type { HeldBytes } from '../../shared/io/byte-budget.ts'
import { PieceCounter } from '../../shared/io/pieces.ts'

/** Bytes of an oversized body to read and discard so that the client can read the response. */
const maxDiscardedBytes = 64 * 1024 * 1024
/** And pieces, unless they are large. */
const maxDiscardedPieces = 16 * 1024
/** How long the connection of a refused body stays open after the answer. */
const maxLingerMs = 60_000
/** Minimum bytes a sender must deliver in each window. */
const minWindowBytes = 256 * 1024
const windowMs = 30_000
/**
 * A body of at most so many bytes may arrive slowly: it holds little, and a bad line needs minutes for it. At 300 bytes a
 * second they take the 15 minutes that a request may last.
 */
const maxSlowBodyBytes = 256 * 1024
/** A sender of less is gone, rather than slow. */
const minSlowWindowBytes = 2 * 1024
/** What a slow sender counts as in the memory budget while it sends: its connection, and a limit on their number. */
const slowSenderBytes = 64 * 1024

/**
 * Calls `refuse` once the sender of a request delivers less than 256 KiB in half a minute, unless the gateway itself
 * paused reading: with a 408 beyond 256 KiB of a body or without any progress, with the budget's own error where too
 * many are slow. Returns a function to stop.
 */
export function watchSender(
  request: IncomingMessage,
  refuse: (error: GatewayError) => void,
  everyMs = windowMs,
  held?: HeldBytes,
): () => void {
  const { socket } = request
  const firstBytesRead = socket.bytesRead
  let lastBytesRead = firstBytesRead
  let heldBytes = 0
  const check = (bytes: number) => {
    const declaredBytes = Number(request.headers['content-length'] ?? 0)
    const isLarge = Math.max(declaredBytes, lastBytesRead - firstBytesRead) > maxSlowBodyBytes
    if (isLarge || bytes < minSlowWindowBytes) return refuse(tooSlowError())
    if (!held || heldBytes > 0) return
    try {
      held.take(slowSenderBytes)
      heldBytes = slowSenderBytes
    } catch (error) {
      refuse(withConnectionClose(error as GatewayError))
    }
  }
  const timer = setInterval(() => {
    const { bytesRead } = socket
    const bytes = bytesRead - lastBytesRead
    lastBytesRead = bytesRead
    if (!request.isPaused() && bytes < minWindowBytes) check(bytes)
  }, everyMs)
  return () => {
    clearInterval(timer)
    held?.hold(-heldBytes)
    heldBytes = 0
  }
}

/**
 * Discards the rest of a request so that the client can read the response: up to 64 MiB, and for a minute after the
 * response.
 */
export function discardBody(request: IncomingMessage, lingerMs = maxLingerMs): void {
  const discarded = new PieceCounter({ maxTiny: maxDiscardedPieces })
  request.on('data', (piece: Buffer) => {
    if (!discarded.add(piece.length) || discarded.bytes > maxDiscardedBytes) request.destroy()
  })
  closeAfterBody(request, lingerMs)
  // A request that was piped before is paused: without this, its connection would accept no further request.
  request.resume()
}

/**
 * Makes the close of a connection, which Node begins after the response, wait for the rest of the body. A socket that is
 * closed while its client still writes is reset, and the client loses the response that it has not read.
 */
function closeAfterBody(request: IncomingMessage, lingerMs: number): void {
  const { socket } = request
  socket.destroySoon = () => {
    if (request.complete) return Socket.prototype.destroySoon.call(socket)
    socket.end()
    const timer = setTimeout(() => socket.destroy(), lingerMs)
    request.once('end', () => socket.destroy())
    socket.once('close', () => clearTimeout(timer))
  }
}

/** Adds `connection: close` to the error, so that the rest of the body is not read. */
export function withConnectionClose(error: GatewayError): GatewayError {
  error.headers.connection = 'close'
  return error
}

/** The error for a body in too many tiny pieces. */
export function tinyPiecesError(): GatewayError {
  const message = 'The body was sent in thousands of tiny pieces. Send at least 64 bytes in each chunk or packet.'
  return new GatewayError('invalid_request', message, { headers: { connection: 'close' } })
}

function tooSlowError(): GatewayError {
  const message =
    'The body was sent too slowly: less than 256 KiB in half a minute, or less than 2 KiB for a body of up to 256 KiB.'
  return new GatewayError('request_timeout', message, { headers: { connection: 'close' } })
}
