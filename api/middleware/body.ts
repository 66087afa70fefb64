import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import type { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'

/** JSON bodies beyond this make an upload necessary (contract §2). */
export const mostBodyBytes = 10 * 1024 * 1024
const mostDepth = 128
/** How much of an oversized body is read and thrown away so that the client gets to see the answer. */
const mostDiscardedBytes = 64 * 1024 * 1024

/** A request's bytes. Throws 413 beyond 10 MiB, 415 for another content type or encoding. */
export function readJsonBody(request: IncomingMessage): Promise<Buffer> {
  const { 'content-type': type, 'content-encoding': encoding, 'content-length': length } = request.headers
  if (type !== undefined && !/^application\/(json|[\w.-]+\+json)\b/i.test(type)) {
    request.resume()
    throw new GatewayError('unsupported_media_type', 'Send the body as `Content-Type: application/json`.')
  }
  if (encoding !== undefined && encoding !== 'identity') {
    request.resume()
    throw new GatewayError('unsupported_media_type', 'Send the body without a Content-Encoding.')
  }
  if (Number(length) > mostBodyBytes) {
    discard(request)
    throw tooLarge()
  }
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = []
    let bytes = 0
    request.on('data', (part: Buffer) => {
      bytes += part.length
      if (bytes <= mostBodyBytes) parts.push(part)
      else if (bytes - part.length <= mostBodyBytes) {
        parts.length = 0
        reject(tooLarge())
      } else if (bytes > mostDiscardedBytes) request.destroy()
    })
    request.on('end', () => resolve(parts.length === 1 ? parts[0]! : Buffer.concat(parts)))
    request.on('error', cause => reject(new GatewayError('invalid_request', 'The request was cut off.', { cause })))
    request.on('close', () => {
      if (!request.complete) reject(new GatewayError('invalid_request', 'The request was cut off.'))
    })
  })
}

function discard(request: IncomingMessage): void {
  let bytes = 0
  request.on('data', (part: Buffer) => {
    bytes += part.length
    if (bytes > mostDiscardedBytes) request.destroy()
  })
}

function tooLarge(): GatewayError {
  return new GatewayError(
    'request_too_large',
    'The body is larger than 10 MiB. Upload large files with POST /v1/uploads and refer to them by URL.',
    {
      headers: { connection: 'close' },
    },
  )
}

/** Parses JSON. Throws 400 `invalid_json` for text that is not UTF-8 JSON, is nested deeper than 128, or has lone surrogates. */
export function parseJson(raw: Buffer): unknown {
  if (raw.length === 0) throw new GatewayError('invalid_json', 'The body is empty; send a JSON object.')
  if (!isUtf8(raw)) throw new GatewayError('invalid_json', 'The body is not valid UTF-8.')
  if (deeperThan(raw, mostDepth))
    throw new GatewayError('invalid_json', `The body is nested deeper than ${mostDepth} levels.`)
  const text = raw.toString()
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new GatewayError('invalid_json', `The body is not valid JSON: ${(error as Error).message.slice(0, 200)}`)
  }
  if (text.includes('\\ud') || text.includes('\\uD')) {
    const path = loneSurrogate(value)
    if (path)
      throw new GatewayError('invalid_request', 'The text has a lone surrogate, which is no character.', {
        param: path,
      })
  }
  return value
}

function deeperThan(raw: Buffer, most: number): boolean {
  let depth = 0
  let quoted = false
  for (let i = 0; i < raw.length; i++) {
    const byte = raw[i]
    if (quoted) {
      if (byte === 0x5c) i++
      else if (byte === 0x22) quoted = false
    } else if (byte === 0x22) quoted = true
    else if (byte === 0x7b || byte === 0x5b) {
      if (++depth > most) return true
    } else if (byte === 0x7d || byte === 0x5d) depth--
  }
  return false
}

/** The path of the first string that is not well-formed Unicode. Recursion is bounded by the body's depth. */
function loneSurrogate(value: unknown, path: string[] = []): string | null {
  if (typeof value === 'string') return value.isWellFormed() ? null : path.join('.')
  if (typeof value !== 'object' || value === null) return null
  for (const [key, member] of Object.entries(value)) {
    const found = key.isWellFormed() ? loneSurrogate(member, [...path, key]) : path.join('.')
    if (found !== null) return found
  }
  return null
}

/** Validates a value. Throws the 400 of contract §2 naming the field. */
export function validate<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value, { reportInput: true })
  if (parsed.success) return parsed.data
  throw fieldError(parsed.error.issues[0]!, [])
}

function fieldError(issue: z.core.$ZodIssue, above: PropertyKey[]): GatewayError {
  const path = [...above, ...issue.path]
  if (issue.code === 'invalid_union') {
    // The branch that got furthest is the one that was meant.
    const branches = issue.errors.filter(branch => branch.length > 0)
    const depth = (branch: z.core.$ZodIssue[]) => Math.max(...branch.map(({ path: { length } }) => length))
    const meant = branches.sort((a, b) => depth(b) - depth(a))[0]
    if (meant && depth(meant) > 0) return fieldError(meant.find(({ path: { length } }) => length > 0)!, path)
  }
  const param = path.join('.')
  if (issue.code === 'unrecognized_keys') {
    const field = [...path, issue.keys[0]!].join('.')
    return new GatewayError('unknown_field', `Unknown field \`${field}\`.`, { param: field })
  }
  if (issue.input === undefined) return new GatewayError('missing_field', `\`${param}\` is required.`, { param })
  return new GatewayError('invalid_request', param ? `\`${param}\`: ${issue.message}` : issue.message, { param })
}
