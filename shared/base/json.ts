import { isAscii, isUtf8 } from 'node:buffer'
import { GatewayError } from './errors.ts'
import { type MemoryAccount, parsedBytes, scanJson } from './json-scan.ts'
import { closingQuote } from './json-strings.ts'

const maxNameCharacters = 200
/**
 * Larger texts, such as frames with base64 audio, must be ASCII: a single other character doubles the memory of the
 * whole string. Callers may allow more.
 */
const maxWideBytes = 10 * 1024 * 1024

/**
 * Parses JSON. Throws 400 `invalid_json` for text that is not UTF-8 JSON, is nested deeper than 128, repeats a field
 * name in an object, or writes letters of a field name as escapes; 400 `invalid_request` for lone surrogates, for more
 * than 100,000 strings, objects and lists, 400,000 values, 50,000 fields, 10,000 fields of one object or 4 MiB of
 * numbers, and for more than 10 MiB that are not ASCII. Messages begin with `what`. Runs in linear time. Before it
 * allocates, it asks `memory` for what the value takes beyond the bytes, and throws what that throws.
 */
export function parseJson(
  raw: Buffer,
  what = 'The body',
  maxWide = maxWideBytes,
  memory: MemoryAccount | null = null,
): unknown {
  if (raw.length === 0) throw new GatewayError('invalid_json', `${what} is empty; send a JSON object.`)
  const isPlain = isAscii(raw)
  if (!isPlain && !isUtf8(raw)) throw new GatewayError('invalid_json', `${what} is not valid UTF-8.`)
  if (!isPlain && raw.length > maxWide)
    throw new GatewayError(
      'invalid_request',
      `${what} has more than ${maxWide / 1024 / 1024} MiB and characters beyond ASCII.`,
    )
  const hasEscapes = raw.includes(backslash!)
  const scanned = scanJson(raw, hasEscapes, what)
  const { members, hasEscapedName, hasLoneEscape } = scanned
  memory?.grow(parsedBytes(raw.length, scanned))
  // The Latin-1 decoder is the fastest for ASCII.
  const text = raw.toString(isPlain ? 'latin1' : 'utf8')
  let value: unknown
  try {
    value = JSON.parse(hasLoneEscape ? decodeEscapes(text) : text)
  } catch (error) {
    throw new GatewayError('invalid_json', `${what} is not valid JSON: ${(error as Error).message.slice(0, 200)}`)
  }
  // The bytes are forwarded unchanged, and a provider may use the first duplicate where this parser uses the last.
  if (members !== countMembers(value)) throw duplicateField(raw, what)
  // V8 13.6 may confuse such a name with another name it has interned, whereas a provider decodes it correctly.
  if (hasEscapedName)
    throw new GatewayError('invalid_json', `${what} names a field by escapes; write its letters as they are.`)
  if (hasEscapes && surrogateEscape.test(text)) {
    const path = findText(value, lone => !lone.isWellFormed())
    if (path !== null) {
      throw new GatewayError('invalid_request', 'The text has a lone surrogate, which is no character.', {
        param: path,
      })
    }
  }
  return value
}

/** A text without the byte order mark that some editors and shells begin it with, which a parser may ignore (RFC 8259). */
export function withoutMark(raw: Buffer): Buffer {
  return raw[0] === 0xef && raw[1] === 0xbb && raw[2] === 0xbf ? raw.subarray(3) : raw
}

/** Rejects text that Postgres cannot store. Throws 400 naming the field. */
export function rejectNul(value: unknown): void {
  const path = findText(value, text => text.includes('\0'))
  if (path !== null) throw new GatewayError('invalid_request', `\`${path}\` has a NUL character.`, { param: path })
}

const [quote, backslash, colon, , brace, bracket, closingBrace, closingBracket] = Buffer.from('"\\:,{[}]')

/** The native search for these characters is slow in text that is mostly backslashes. */
const surrogateEscape = /\\u[dD]/

/** Writes characters beyond ASCII as they are. */
function decodeEscapes(text: string): string {
  return text.replace(/\\(?:u([\da-fA-F]{4})|[^u])/g, (written, hex?: string) => {
    const code = hex === undefined ? 0 : Number.parseInt(hex, 16)
    return code < 0x80 ? written : String.fromCharCode(code)
  })
}

function countMembers(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) for (let i = 0; i < value.length; i++) count += countMembers(value[i])
  else for (const name in value) count += 1 + countMembers((value as Record<string, unknown>)[name])
  return count
}

/** The error for valid JSON in which an object repeats a field name; finds the name. */
function duplicateField(raw: Buffer, what: string): GatewayError {
  const open: Set<string>[] = []
  let name = ''
  for (let i = 0; i < raw.length; i++) {
    const byte = raw[i]
    if (byte === brace || byte === bracket) open.push(new Set())
    else if (byte === closingBrace || byte === closingBracket) open.pop()
    else if (byte === colon) {
      const names = open.at(-1)!
      if (names.has(name)) break
      names.add(name)
    } else if (byte === quote) {
      const start = i
      i = closingQuote(raw, i)
      name = JSON.parse(raw.toString('utf8', start, i + 1))
    }
  }
  const param = formatPath([name])
  return new GatewayError('invalid_json', `${what} names the field \`${param}\` twice.`, { param })
}

/**
 * Returns the path of the first string, name or value, that matches `bad`. Recursion is bounded by the depth of the
 * body.
 */
function findText(value: unknown, bad: (text: string) => boolean, path: PropertyKey[] = []): string | null {
  if (typeof value === 'string') return bad(value) ? formatPath(path) : null
  if (typeof value !== 'object' || value === null) return null
  // A list may have hundreds of thousands of numbers: no allocation per item.
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      if (typeof value[i] === 'number') continue
      path.push(i)
      const found = findText(value[i], bad, path)
      if (found !== null) return found
      path.pop()
    }
    return null
  }
  for (const [name, member] of Object.entries(value)) {
    if (bad(name)) return formatPath(path)
    path.push(name)
    const found = findText(member, bad, path)
    if (found !== null) return found
    path.pop()
  }
  return null
}

/** Formats a path for `param`, truncated: a client may send a field name of megabytes. */
export function formatPath(path: PropertyKey[]): string {
  return path.join('.').slice(0, maxNameCharacters).toWellFormed()
}
