import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import type { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'

/** JSON bodies beyond this make an upload necessary (contract §2). */
export const mostBodyBytes = 10 * 1024 * 1024
const mostDepth = 128
const mostNameCharacters = 200
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

/** Reads the rest of a request and throws it away, so that the client gets to see the answer. */
export function discard(request: IncomingMessage): void {
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

/**
 * Parses JSON. Throws 400 `invalid_json` for text that is not UTF-8 JSON, is nested deeper than 128, or names a field
 * twice; 400 `invalid_request` for lone surrogates.
 */
export function parseJson(raw: Buffer): unknown {
  if (raw.length === 0) throw new GatewayError('invalid_json', 'The body is empty; send a JSON object.')
  if (!isUtf8(raw)) throw new GatewayError('invalid_json', 'The body is not valid UTF-8.')
  const { depth, members } = scan(raw)
  if (depth > mostDepth) throw new GatewayError('invalid_json', `The body is nested deeper than ${mostDepth} levels.`)
  const text = raw.toString()
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new GatewayError('invalid_json', `The body is not valid JSON: ${(error as Error).message.slice(0, 200)}`)
  }
  // Bytes are passed on as they came, and a provider may read the first of two where we read the last.
  if (members !== membersOf(value)) throw repeated(raw)
  if (text.includes('\\ud') || text.includes('\\uD')) {
    const path = firstText(value, lone => !lone.isWellFormed())
    if (path !== null) {
      throw new GatewayError('invalid_request', 'The text has a lone surrogate, which is no character.', {
        param: path,
      })
    }
  }
  return value
}

/** Refuses text that Postgres cannot store. Throws 400 naming the field. */
export function refuseNul(value: unknown): void {
  const path = firstText(value, text => text.includes('\0'))
  if (path !== null) throw new GatewayError('invalid_request', `\`${path}\` has a NUL character.`, { param: path })
}

const [quote, backslash, colon, brace, bracket, closingBrace, closingBracket] = Buffer.from('"\\:{[}]')

/** What parsed JSON no longer tells: how deep the text is nested (it stops at too deep), and how many members it writes. */
function scan(raw: Buffer): { depth: number; members: number } {
  let depth = 0
  let deepest = 0
  let members = 0
  for (let i = 0; i < raw.length && deepest <= mostDepth; i++) {
    const byte = raw[i]
    if (byte === quote) i = closingQuote(raw, i)
    else if (byte === colon) members++
    else if (byte === brace || byte === bracket) deepest = Math.max(deepest, ++depth)
    else if (byte === closingBrace || byte === closingBracket) depth--
    if (i < 0) break // No closing quote: JSON.parse will say so.
  }
  return { depth: deepest, members }
}

/** Where the string that starts at `open` ends; -1 when it does not. Most of a body is text, which the native search skips. */
function closingQuote(raw: Buffer, open: number): number {
  let at = open
  do at = raw.indexOf(quote!, at + 1)
  while (at >= 0 && isEscaped(raw, at))
  return at
}

function isEscaped(raw: Buffer, at: number): boolean {
  let backslashes = 0
  while (raw[at - 1 - backslashes] === backslash) backslashes++
  return backslashes % 2 === 1
}

function membersOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  for (const member of Array.isArray(value) ? value : Object.values(value)) count += membersOf(member)
  return Array.isArray(value) ? count : count + Object.keys(value).length
}

/** The error for valid JSON in which an object names a field twice; finds which. */
function repeated(raw: Buffer): GatewayError {
  const open: Set<string>[] = []
  let text = ''
  for (let i = 0; i < raw.length; i++) {
    const byte = raw[i]
    if (byte === brace || byte === bracket) open.push(new Set())
    else if (byte === closingBrace || byte === closingBracket) open.pop()
    else if (byte === colon) {
      const fields = open.at(-1)!
      if (fields.has(text)) break
      fields.add(text)
    } else if (byte === quote) {
      const start = i++
      for (; raw[i] !== quote; i++) if (raw[i] === backslash) i++
      text = JSON.parse(raw.toString('utf8', start, i + 1))
    }
  }
  const param = nameOf([text])
  return new GatewayError('invalid_json', `The body names the field \`${param}\` twice.`, { param })
}

/** The path of the first string, name or value, of which `bad` is true. Recursion is bounded by the body's depth. */
function firstText(value: unknown, bad: (text: string) => boolean, path: string[] = []): string | null {
  if (typeof value === 'string') return bad(value) ? nameOf(path) : null
  if (typeof value !== 'object' || value === null) return null
  for (const [name, member] of Object.entries(value)) {
    const found = bad(name) ? nameOf(path) : firstText(member, bad, [...path, name])
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
  const param = nameOf(path)
  if (issue.code === 'unrecognized_keys') {
    const field = nameOf([...path, issue.keys[0]!])
    return new GatewayError('unknown_field', `Unknown field \`${field}\`.`, { param: field })
  }
  if (isMissing(issue)) return new GatewayError('missing_field', `\`${param}\` is required.`, { param })
  if (param === '') return new GatewayError('invalid_request', `The body must be a JSON object: ${issue.message}`)
  return new GatewayError('invalid_request', `\`${param}\`: ${issue.message}`, { param })
}

/** A path as `param` shows it. A client may name a field with megabytes of text. */
function nameOf(path: PropertyKey[]): string {
  return path.join('.').slice(0, mostNameCharacters).toWellFormed()
}

function isMissing(issue: z.core.$ZodIssue): boolean {
  if (issue.input === undefined) return true
  // A discriminated union reports a missing discriminator as an invalid one.
  if (issue.code !== 'invalid_union' || issue.errors.length > 0) return false
  return Object(issue.input)[issue.path.at(-1)!] === undefined
}
