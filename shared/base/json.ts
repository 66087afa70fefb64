import { isAscii, isUtf8 } from 'node:buffer'
import { GatewayError } from './errors.ts'
import { keepNumbers, minDigits } from './exact-numbers.ts'
import { closingQuote } from './json-member.ts'

const [quote, backslash, colon, comma, brace, bracket, closingBrace, closingBracket] = Buffer.from('"\\:,{[}]')

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
 * allocates, it asks `memory` for what the value takes beyond the bytes, and throws what that throws. Numbers of tools that
 * JavaScript's do not hold are kept as they are written (`keepNumbers`).
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
  const { members, mayBeInexact, hasEscapedName, hasLoneEscape } = scanned
  memory?.grow(parsedBytes(raw.length, scanned) + (mayBeInexact ? scanned.literalBytes * rawNumberBytes : 0))
  // The Latin-1 decoder is the fastest for ASCII.
  const text = raw.toString(isPlain ? 'latin1' : 'utf8')
  const read = hasLoneEscape ? decodeEscapes(text) : text
  let value: unknown
  try {
    value = JSON.parse(read)
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
  if (mayBeInexact) keepNumbers(value, read)
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

const maxDepth = 128
/**
 * Limits on the contents of a text, so that parsing and validation take at most some tens of milliseconds for any
 * input. Numbers are cheap; strings, objects and lists each allocate; an object with many fields becomes a hash table.
 */
const maxParts = 100_000
const maxValues = 400_000
/** Each name that V8 has not interned yet costs up to a microsecond. */
const maxMembers = 50_000
const maxFields = 10_000
/** Of numbers, `true`, `false` and `null`. A number with many digits costs ten times as much as a short one. */
const maxLiteralBytes = 4 * 1024 * 1024

const letterU = 0x75
/** The largest code of a whitespace character between values. */
const space = 0x20
/** Bytes that are significant outside strings. */
const isSignificant = Uint8Array.from({ length: 256 }, (_, byte) =>
  Number('":,{[}]'.includes(String.fromCharCode(byte))),
)

/** A letter, digit or underscore written as an escape. */
const escapedLetter = /\\u00(?:3\d|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9a])/i

/** What JSON texts contain together. */
type JsonCounts = {
  /** Strings, objects and lists. */
  parts: number
  values: number
  members: number
  literalBytes: number
}

/**
 * Memory that a request takes beyond the bytes of its JSON. Its strings and the request to the provider are copies of the
 * bytes; an empty object takes 57 bytes, a field of a new name 55, a number up to 24.
 */
const copies = 2
const partBytes = 60
const valueBytes = 20
/** Per byte of a number that is kept as it is written, of 16 bytes or more. */
const rawNumberBytes = 6

/** The copies of a body that are bytes, not strings: as received, and as sent to the provider. */
export const rawCopies = 2

/** The memory that a JSON text takes beyond its own bytes once it is parsed. */
export function parsedBytes(textBytes: number, { parts, values }: Pick<JsonCounts, 'parts' | 'values'>): number {
  return textBytes * copies + parts * partBytes + values * valueBytes
}

/** Accounts for memory, and throws where there is none. */
type MemoryAccount = { grow(bytes: number): void }

type Scanned = JsonCounts & {
  /** Whether a number may be one that JavaScript's numbers do not hold. */
  mayBeInexact: boolean
  /** Whether a member's name contains unnecessary escapes, or is a single one for an ASCII character. */
  hasEscapedName: boolean
  /** Whether a member's name is a single escape for a character beyond ASCII, such as `\u6f22`. V8 13.6 may read it as a backslash. */
  hasLoneEscape: boolean
}

/** Number of fields of the open object at each depth; only one scan uses it at once. */
const fields = new Uint32Array(maxDepth + 1)

const none: JsonCounts = { parts: 0, values: 0, members: 0, literalBytes: 0 }

/**
 * Scans every byte once, before parsing allocates any memory. Stops at a syntax error, which JSON.parse reports. The
 * counts, and their limits, include those of texts scanned `before`. Throws 400 for text that is nested too deep or
 * exceeds a limit.
 */
export function scanJson(raw: Buffer, hasEscapes: boolean, what: string, before = none): Scanned {
  let depth = 0
  let { members, parts, literalBytes } = before
  let values = before.values + 1
  let mayBeInexact = false
  let hasEscapedName = false
  let hasLoneEscape = false
  /** Positions of the last string's quotes, until a colon turns it into a name. */
  let from = -1
  let to = -1
  fields[0] = 0
  for (let i = 0; i < raw.length; i++) {
    const byte = raw[i]!
    if (isSignificant[byte] === 0) {
      if (byte <= space) continue
      const start = i
      while (i + 1 < raw.length && isSignificant[raw[i + 1]!] === 0 && raw[i + 1]! > space) i++
      literalBytes += i + 1 - start
      mayBeInexact ||= mayChange(raw, start, i + 1)
      continue
    }
    if (byte === quote) {
      from = i
      to = closingQuote(raw, i)
      if (to < 0) break
      i = to
      parts++
      if (parts > maxParts) throw tooManyParts(what)
    } else if (byte === comma) {
      if (++values > maxValues) throw limitExceeded(what, `more than ${commas(maxValues)} values`)
    } else if (byte === colon) {
      if (from < 0) break
      if (++members > maxMembers) throw limitExceeded(what, `more than ${commas(maxMembers)} fields`)
      if (hasEscapes) {
        const code = loneEscapeCode(raw, from, to)
        hasLoneEscape ||= code >= 0x80
        hasEscapedName ||= (code >= 0 && code < 0x80) || hasEscapedLetter(raw, from, to)
      }
      from = -1
      if (++fields[depth]! > maxFields)
        throw limitExceeded(what, `an object with more than ${commas(maxFields)} fields`)
    } else if (byte === brace || byte === bracket) {
      if (++depth > maxDepth)
        throw new GatewayError('invalid_json', `${what} is nested deeper than ${maxDepth} levels.`)
      fields[depth] = 0
      parts++
      if (parts > maxParts) throw tooManyParts(what)
    } else if (--depth < 0) break
  }
  if (literalBytes > maxLiteralBytes) throw limitExceeded(what, 'more than 4 MiB of numbers')
  return { parts, values, members, literalBytes, mayBeInexact, hasEscapedName, hasLoneEscape }
}

/** Shorter numbers with an exponent are exact. */
const minExponential = 5

/** Whether a literal may be a number that JavaScript's numbers do not hold. */
function mayChange(raw: Buffer, start: number, end: number): boolean {
  if (end - start >= minDigits) return true
  if (end - start < minExponential) return false
  // An E behind a digit.
  for (let i = start + 1; i < end; i++) if ((raw[i]! & 0xdf) === 0x45 && raw[i - 1]! <= 0x39) return true
  return false
}

/** Counts JSON texts that are read to become parts of one request: together they have the limits of one text. */
export class JsonMeter {
  readonly #memory: MemoryAccount
  readonly #limitError: (cause: unknown) => GatewayError
  #counts: JsonCounts

  /** `own`: the text that the others are added to, which is accounted for. `limitError` is thrown beyond the limits. */
  constructor(own: Buffer, memory: MemoryAccount, limitError: (cause: unknown) => GatewayError) {
    this.#memory = memory
    this.#limitError = limitError
    this.#counts = scanJson(own, false, 'The body')
  }

  /** Counts a text before it is parsed. Throws beyond the limits, and what the account of memory throws. */
  add(text: Buffer): void {
    const { parts, values } = this.#counts
    try {
      this.#counts = scanJson(text, false, 'The text', this.#counts)
    } catch (error) {
      throw this.#limitError(error)
    }
    const added = { parts: this.#counts.parts - parts, values: this.#counts.values - values }
    this.#memory.grow(parsedBytes(text.length, added))
  }
}

function tooManyParts(what: string): GatewayError {
  return limitExceeded(what, `more than ${commas(maxParts)} strings, objects and lists`)
}

function limitExceeded(what: string, has: string): GatewayError {
  return new GatewayError('invalid_request', `${what} has ${has}: split it into several requests.`)
}

function commas(count: number): string {
  return count.toLocaleString('en-US')
}

/** Whether the name between two quotes contains a letter written as an escape. */
function hasEscapedLetter(raw: Buffer, from: number, to: number): boolean {
  // Names are short and may be many: no allocation per name.
  for (let i = from + 1; i < to; i++) if (raw[i] === backslash) return escapedLetter.test(raw.toString('latin1', i, to))
  return false
}

/**
 * The code of the name between two quotes if it is one character that is written as an escape: 0 for one such as `\n`, -1 for
 * any other name. A backslash is not one of them: it is read correctly.
 */
function loneEscapeCode(raw: Buffer, from: number, to: number): number {
  if (raw[from + 1] !== backslash || raw[from + 2] === backslash) return -1
  if (to - from === 3) return 0
  return to - from === 7 && raw[from + 2] === letterU ? Number.parseInt(raw.toString('latin1', from + 3, to), 16) : -1
}
