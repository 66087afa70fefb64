import { GatewayError } from '../../shared/base/errors.ts'
import type { HeldBytes } from '../../shared/io/byte-budget.ts'
import { clientAddress } from '../auth/address.ts'
import type { HttpResponse } from '../http-response.ts'
import type { State } from '../state.ts'
import { discardBody, maxDiscardedBytes, watchSender } from './sender.ts'

const mib = 1024 * 1024

/** Larger JSON bodies require an upload (contract §2). */
export const maxBodyBytes = 10 * mib
/**
 * Reads the body of a JSON request. Throws 413 beyond `maxBytes`, 415 for another content type or encoding, 408 for a
 * slow sender, and 429 or 503 when the budget of bytes in flight is exhausted.
 */
export async function readJsonBody(state: State, maxBytes = maxBodyBytes): Promise<Buffer> {
  const { 'content-type': type, 'content-encoding': encoding } = state.request.headers
  if (type !== undefined && !/^application\/(json|[\w.-]+\+json)\b/i.test(type)) {
    discardBody(state.request)
    throw new GatewayError('unsupported_media_type', 'Send the body as `Content-Type: application/json`.')
  }
  if (encoding !== undefined && encoding !== 'identity') {
    discardBody(state.request)
    throw new GatewayError('unsupported_media_type', 'Send the body without a Content-Encoding.')
  }
  return readBody(state, maxBytes)
}

/**
 * Reads the body of a request of any content type. Rejects with 413 beyond `maxBytes`, and 408, 429 and 503 as
 * `readJsonBody` does.
 */
export function readBody(state: State, maxBytes: number): Promise<Buffer> {
  const { request } = state
  if (Number(request.headers['content-length']) > maxBytes) {
    discardBody(request)
    return Promise.reject(tooLargeError(maxBytes))
  }
  const held = holdBody(state)
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    let bytes = 0
    let isRefused = false
    const refuse = (error: unknown) => {
      unwatch()
      isRefused = true
      parts.length = 0
      held.release()
      reject(error)
    }
    request.on('data', (part: Buffer) => {
      bytes += part.length
      if (bytes > maxDiscardedBytes) request.destroy()
      if (isRefused) return
      if (bytes > maxBytes) return refuse(tooLargeError(maxBytes))
      try {
        held.take(part.length)
        parts.push(part)
      } catch (error) {
        refuse(withConnectionClose(error))
      }
    })
    request.on('end', () => {
      unwatch()
      resolve(parts.length === 1 ? parts[0]! : Buffer.concat(parts))
    })
    request.on('error', cause => refuse(cutOffError(cause)))
    request.on('close', () => {
      if (!request.complete) refuse(cutOffError())
    })
    const unwatch = watchSender(request, refuse)
  })
}

/**
 * Opens the memory budget of a request's body, held until the request is handled and its response was sent: the budget
 * of the organisation or person if authenticated, otherwise of the address.
 */
export function holdBody(state: State): HeldBytes {
  const { services, request, apiKey, organisationId, person } = state
  const { bodies, publicBodies } = services.budgets
  const owner = apiKey?.policy.organisationId ?? organisationId ?? person?.id
  const held = owner ? bodies.open(owner) : publicBodies.open(clientAddress(request, services.config.trustedProxies))
  state.held.push(held)
  state.heldBody = held
  return held
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

/** Adds `connection: close` to the error, so that the rest of the body is not read. */
function withConnectionClose(error: unknown): unknown {
  if (error instanceof GatewayError) error.headers.connection = 'close'
  return error
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
