import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../../shared/base/errors.ts'

/** JSON bodies beyond this make an upload necessary (contract §2). */
export const mostBodyBytes = 10 * 1024 * 1024
/** How much of an oversized body is read and thrown away so that the client gets to see the answer. */
const mostDiscardedBytes = 64 * 1024 * 1024

/** A request's bytes. Throws 413 beyond 10 MiB, 415 for another content type or encoding. */
export function readJsonBody(request: IncomingMessage): Promise<Buffer> {
  const { 'content-type': type, 'content-encoding': encoding } = request.headers
  if (type !== undefined && !/^application\/(json|[\w.-]+\+json)\b/i.test(type)) {
    request.resume()
    throw new GatewayError('unsupported_media_type', 'Send the body as `Content-Type: application/json`.')
  }
  if (encoding !== undefined && encoding !== 'identity') {
    request.resume()
    throw new GatewayError('unsupported_media_type', 'Send the body without a Content-Encoding.')
  }
  return readBody(request, mostBodyBytes)
}

/** A request's bytes, whatever they are. Throws 413 beyond `mostBytes`. */
export function readBody(request: IncomingMessage, mostBytes: number): Promise<Buffer> {
  if (Number(request.headers['content-length']) > mostBytes) {
    discard(request)
    throw tooLarge(mostBytes)
  }
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    let bytes = 0
    request.on('data', (part: Buffer) => {
      bytes += part.length
      if (bytes <= mostBytes) parts.push(part)
      else if (bytes - part.length <= mostBytes) {
        parts.length = 0
        reject(tooLarge(mostBytes))
      } else if (bytes > mostDiscardedBytes) request.destroy()
    })
    request.on('end', () => resolve(parts.length === 1 ? parts[0]! : Buffer.concat(parts)))
    request.on('error', cause => reject(new GatewayError('invalid_request', 'The request was cut off.', { cause })))
    request.on('close', () => {
      if (!request.complete) reject(new GatewayError('invalid_request', 'The request was cut off.'))
    })
  })
}

/** Reads the rest of a request and throws it away, so that the client gets to see the answer. */
export function discard(request: IncomingMessage): void {
  let bytes = 0
  request.on('data', (part: Buffer) => {
    bytes += part.length
    if (bytes > mostDiscardedBytes) request.destroy()
  })
}

function tooLarge(mostBytes: number): GatewayError {
  const message =
    mostBytes === mostBodyBytes
      ? 'The body is larger than 10 MiB. Upload large files with POST /v1/uploads and refer to them by URL.'
      : `The body is larger than ${mostBytes / 1024} KiB.`
  return new GatewayError('request_too_large', message, { headers: { connection: 'close' } })
}
