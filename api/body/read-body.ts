import type { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { GatewayError } from '../../shared/base/errors.ts'
import { type HeldBytes, PieceCollector, PieceCounter } from '../../shared/io/byte-budget.ts'
import { clientAddress } from '../auth/address.ts'
import type { HttpResponse } from '../http-response.ts'
import { HttpRequest } from '../http-server.ts'
import type { State } from '../state.ts'
import { codingsOf, type DecodedBody, decodeBody } from './decode-body.ts'

const mib = 1024 * 1024

/** Larger JSON bodies require an upload (docs/errors.md, `request_too_large`). */
export const maxBodyBytes = 10 * mib
/** A body without a key or session counts as at least this, which limits the connections that one address can occupy. */
const publicBodyBytes = 16 * 1024

/** Whether the body of a request is a multipart form. */
export function isForm(request: IncomingMessage): boolean {
  return /^multipart\/form-data\b/i.test(request.headers['content-type'] ?? '')
}

/** Whether the body of a request is compressed. Throws 415 for an unknown coding, 400 for too many. */
export function isCompressed({ headers }: IncomingMessage): boolean {
  const header = headers['content-encoding']
  return header !== undefined && codingsOf(header).length > 0
}

/**
 * Reads the body of a JSON request. Throws 413 beyond `maxBytes`, 415 for another content type or an unknown encoding, 408
 * for a slow sender, 400 for one of many tiny pieces or damaged compression, and 429 or 503 when the budget of bytes in
 * flight is exhausted.
 */
export async function readJsonBody(state: State, maxBytes = maxBodyBytes): Promise<Buffer> {
  const { 'content-type': type } = state.request.headers
  if (type !== undefined && !/^application\/(json|[\w.-]+\+json)\b/i.test(type)) {
    discardBody(state.request)
    throw new GatewayError('unsupported_media_type', 'Send the body as `Content-Type: application/json`.')
  }
  return readBody(state, maxBytes)
}

/**
 * Reads the body of a request of any content type, decoded. Rejects with 413 if it has, or decodes to, more than `maxBytes`,
 * and 400, 408, 415, 429 and 503 as `readJsonBody` does.
 */
export async function readBody(state: State, maxBytes: number): Promise<Buffer> {
  // A promise of the bytes themselves would keep them: the connection's listeners refer to it.
  const pieces = await collectBody(state, maxBytes)
  return pieces.take()
}

function collectBody(state: State, maxBytes: number): Promise<PieceCollector> {
  const { request } = state
  let isEncoded: boolean
  try {
    if (Number(request.headers['content-length']) > maxBytes) throw tooLargeError(maxBytes)
    isEncoded = isCompressed(request)
  } catch (error) {
    discardBody(request)
    return Promise.reject(error)
  }
  return new Promise((resolve, reject) => {
    const held = holdBody(state)
    const pieces = new PieceCollector()
    const counter = HttpRequest.countPieces(request)
    let isRefused = false
    const refuse = (error: GatewayError) => {
      unwatch()
      if (isRefused) return
      isRefused = true
      body.stop()
      pieces.clear()
      held.release()
      reject(error)
      discardBody(request)
    }
    const hold = (bytes: number) => {
      try {
        held.take(bytes)
      } catch (error) {
        refuse(withConnectionClose(error as GatewayError))
      }
    }
    const collect = (piece: Buffer) => {
      if (!counter.add(piece.length)) return refuse(tinyPiecesError())
      if (counter.bytes > maxBytes) return refuse(tooLargeError(maxBytes))
      hold(piece.length)
      if (!isRefused) pieces.add(piece)
    }
    const unwatch = watchSender(request, refuse, undefined, held)
    let body: DecodedBody = { source: request, stop: () => request.off('data', collect) }
    try {
      if (isEncoded)
        body = decodeBody(request, {
          maxBytes,
          held,
          refuse,
          tooLargeError: () => tooLargeError(maxBytes),
          tinyPiecesError,
        })
    } catch (error) {
      return refuse(withConnectionClose(error as GatewayError))
    }
    body.source.on('data', collect)
    body.source.on('end', () => {
      unwatch()
      resolve(pieces)
    })
    request.on('error', cause => refuse(cutOffError(cause)))
    request.on('close', () => {
      if (!request.complete) refuse(cutOffError())
    })
    if (!ownerOf(state)) hold(publicBodyBytes)
  })
}

/**
 * Opens the memory budget of a request's body, held until the request is handled and its response was sent: the budget
 * of the organisation or person if authenticated, otherwise of the address.
 */
export function holdBody(state: State): HeldBytes {
  const { services, request } = state
  const { bodies, publicBodies } = services.budgets
  const owner = ownerOf(state)
  const held = owner ? bodies.open(owner) : publicBodies.open(clientAddress(request, services.config.trustedProxies))
  state.held.push(held)
  state.heldBody = held
  return held
}

/** The organisation or person that a request was authenticated for. */
function ownerOf({ apiKey, organisationId, person }: State): string | undefined {
  return apiKey?.policy.organisationId ?? organisationId ?? person?.id
}

/**
 * Releases the budget of a handled request once its response was sent: a slow reader holds its bytes until it has read
 * them, a call that continues without its client until it is over.
 */
export function releaseWhenSent(client: HttpResponse, held: readonly HeldBytes[]): void {
  client.onClosed(() => {
    for (const account of held) account.release()
  })
}

function cutOffError(cause?: unknown): GatewayError {
  return new GatewayError('invalid_request', 'The request body was cut off.', { cause })
}

function tooLargeError(maxBytes: number): GatewayError {
  const message =
    maxBytes === maxBodyBytes
      ? 'The body is larger than 10 MiB. Upload large files with POST /v1/uploads and refer to them by URL.'
      : `The body is larger than ${maxBytes % mib === 0 ? `${maxBytes / mib} MiB` : `${maxBytes / 1024} KiB`}.`
  return new GatewayError('request_too_large', message, { headers: { connection: 'close' } })
}

/** Bytes of an oversized body to read and discard so that the client can read the response. */
const maxDiscardedBytes = 64 * 1024 * 1024
/** Tiny pieces of it that are discarded as well. */
const maxDiscardedPieces = 16 * 1024
/** How long the connection of a refused body stays open after the answer. */
const maxLingerMs = 60_000
/** Minimum bytes a sender must deliver in each window. */
const minWindowBytes = 256 * 1024
const windowMs = 30_000
/**
 * A body up to this size may arrive slowly: it holds little memory, and takes minutes over a bad line. At 300 bytes a second it
 * takes the 15 minutes that a request may last.
 */
const maxSlowBodyBytes = 256 * 1024
/** A sender that delivers less in a window has stopped, rather than being slow. */
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
function withConnectionClose(error: GatewayError): GatewayError {
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
