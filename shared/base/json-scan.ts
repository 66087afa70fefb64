import { GatewayError } from './errors.ts'
import { closingQuote } from './json-strings.ts'

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

const [quote, backslash, colon, comma, brace, bracket] = Buffer.from('"\\:,{[')
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
export type JsonCounts = {
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

/** The memory that a JSON text takes beyond its own bytes once it is parsed. */
export function parsedBytes(textBytes: number, { parts, values }: Pick<JsonCounts, 'parts' | 'values'>): number {
  return textBytes * copies + parts * partBytes + values * valueBytes
}

/** Accounts for memory, and throws where there is none. */
export type MemoryAccount = { grow(bytes: number): void }

type Scanned = JsonCounts & {
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
  let hasEscapedName = false
  let hasLoneEscape = false
  /** Positions of the last string's quotes, until a colon turns it into a name. */
  let from = -1
  let to = -1
  fields[0] = 0
  for (let i = 0; i < raw.length; i++) {
    const byte = raw[i]!
    if (isSignificant[byte] === 0) {
      if (byte > space) literalBytes++
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
  return { parts, values, members, literalBytes, hasEscapedName, hasLoneEscape }
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
