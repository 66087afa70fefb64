import { GatewayError } from '../../shared/base/errors.ts'
import type { HeldBytes } from '../../shared/io/byte-budget.ts'
import { clientAddress } from '../auth/address.ts'
import type { HttpClient } from '../http-client.ts'
import type { State } from '../state.ts'
import { discard, mostDiscardedBytes, watchSender } from './sender.ts'

/** JSON bodies beyond this make an upload necessary (contract §2). */
export const mostBodyBytes = 10 * 1024 * 1024
/**
 * A request's bytes. Throws 413 beyond `maxBytes`, 415 for another content type or encoding, 408 for a sender that is too
 * slow, and 429 or 503 where too many bytes of bodies are under way.
 */
export async function readJsonBody(state: State, maxBytes = mostBodyBytes): Promise<Buffer> {
  const { 'content-type': type, 'content-encoding': encoding } = state.request.headers
  if (type !== undefined && !/^application\/(json|[\w.-]+\+json)\b/i.test(type)) {
    discard(state.request)
    throw new GatewayError('unsupported_media_type', 'Send the body as `Content-Type: application/json`.')
  }
  if (encoding !== undefined && encoding !== 'identity') {
    discard(state.request)
    throw new GatewayError('unsupported_media_type', 'Send the body without a Content-Encoding.')
  }
  return readBody(state, maxBytes)
}

/** A request's bytes, whatever they are. Rejects with 413 beyond `maxBytes`, 408, 429 and 503 as `readJsonBody` does. */
export function readBody(state: State, maxBytes: number): Promise<Buffer> {
  const { request } = state
  if (Number(request.headers['content-length']) > maxBytes) {
    discard(request)
    return Promise.reject(tooLarge(maxBytes))
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
      if (bytes > mostDiscardedBytes) request.destroy()
      if (isRefused) return
      if (bytes > maxBytes) return refuse(tooLarge(maxBytes))
      try {
        held.take(part.length)
        parts.push(part)
      } catch (error) {
        refuse(closing(error))
      }
    })
    request.on('end', () => {
      unwatch()
      resolve(parts.length === 1 ? parts[0]! : Buffer.concat(parts))
    })
    request.on('error', cause => refuse(cutOff(cause)))
    request.on('close', () => {
      if (!request.complete) refuse(cutOff())
    })
    const unwatch = watchSender(request, refuse)
  })
}

/**
 * Opens the account of what a request's body holds of the budget, until it is handled and its answer has left: that of its organisation or
 * person where a key or session has told who that is, else that of its address.
 */
export function holdBody(state: State): HeldBytes {
  const { services, request, known, organisationId, person } = state
  const { bodies, publicBodies } = services.budgets
  const owner = known?.policy.organisationId ?? organisationId ?? person?.id
  const held = owner ? bodies.open(owner) : publicBodies.open(clientAddress(request, services.config.trustedProxies))
  state.held.push(held)
  return held
}

/**
 * Gives back what a handled request holds, once its answer has left: a client that reads slowly holds its bytes until it has them,
 * a call that goes on without its client until it is over.
 */
export function releaseWhenSent(client: HttpClient, held: readonly HeldBytes[]): void {
  client.onClosed(() => {
    for (const account of held) account.release()
  })
}

/** The error with `connection: close`: what is left of the body is not waited for. */
function closing(error: unknown): unknown {
  if (error instanceof GatewayError) error.headers.connection = 'close'
  return error
}

function cutOff(cause?: unknown): GatewayError {
  return new GatewayError('invalid_request', 'The request was cut off.', { cause })
}

function tooLarge(maxBytes: number): GatewayError {
  const message =
    maxBytes === mostBodyBytes
      ? 'The body is larger than 10 MiB. Upload large files with POST /v1/uploads and refer to them by URL.'
      : `The body is larger than ${maxBytes / 1024} KiB.`
  return new GatewayError('request_too_large', message, { headers: { connection: 'close' } })
}
