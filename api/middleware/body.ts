import { GatewayError } from '../../shared/base/errors.ts'
import type { HeldBytes } from '../../shared/io/byte-budget.ts'
import { compressionsIn } from '../../shared/io/content-coding.ts'
import { PieceCollector } from '../../shared/io/pieces.ts'
import { clientAddress } from '../auth/address.ts'
import { HttpRequest } from '../http-request.ts'
import type { HttpResponse } from '../http-response.ts'
import type { State } from '../state.ts'
import { discardBody, tinyPiecesError, watchSender, withConnectionClose } from './sender.ts'

const mib = 1024 * 1024

/** Larger JSON bodies require an upload (docs/errors.md, `request_too_large`). */
export const maxBodyBytes = 10 * mib
/** A body without a key or session counts as at least this, which limits the connections that one address can occupy. */
const publicBodyBytes = 16 * 1024

/**
 * Reads the body of a JSON request. Throws 413 beyond `maxBytes`, 415 for another content type or encoding, 408 for a
 * slow sender, 400 for one of many tiny pieces, and 429 or 503 when the budget of bytes in flight is exhausted.
 */
export async function readJsonBody(state: State, maxBytes = maxBodyBytes): Promise<Buffer> {
  const { 'content-type': type, 'content-encoding': encoding } = state.request.headers
  if (type !== undefined && !/^application\/(json|[\w.-]+\+json)\b/i.test(type)) {
    discardBody(state.request)
    throw new GatewayError('unsupported_media_type', 'Send the body as `Content-Type: application/json`.')
  }
  if (compressionsIn(encoding).length > 0) {
    discardBody(state.request)
    throw new GatewayError('unsupported_media_type', 'Send the body without a Content-Encoding.')
  }
  return readBody(state, maxBytes)
}

/**
 * Reads the body of a request of any content type. Rejects with 413 beyond `maxBytes`, and 400, 408, 429 and 503 as
 * `readJsonBody` does.
 */
export function readBody(state: State, maxBytes: number): Promise<Buffer> {
  const { request } = state
  if (Number(request.headers['content-length']) > maxBytes) {
    discardBody(request)
    return Promise.reject(tooLargeError(maxBytes))
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
      request.off('data', collect)
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
    request.on('data', collect)
    request.on('end', () => {
      unwatch()
      resolve(pieces.take())
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
