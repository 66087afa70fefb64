import { closingQuote } from '../../base/json-member.ts'
import type { Json } from './json-fields.ts'

/** A string of a frame that is too long to decode, such as sound: only its size, in bytes of UTF-8. */
class LongText {
  readonly bytes: number

  constructor(bytes: number) {
    this.bytes = bytes
  }
}

/** The event in a frame; `hasDuplicates`: an object names a member twice, of which parsers may use the first or the last. */
type ReadFrame = { event: Json; hasDuplicates: boolean }

/** Strings above this are sizes: no name, id or event type is as long. */
const maxTextBytes = 1024
const maxDepth = 128
/**
 * Values of a client's frame that are read; those of sound and of items of a conversation have far fewer. Reading costs up to
 * 100 ns a value, and a client pays nothing for it.
 */
export const maxClientValues = 500

const [quote, backslash, colon, comma, openBrace, closeBrace, openBracket, closeBracket] = Buffer.from('"\\:,{}[]')
const space = 0x20
const letterU = 0x75
const zero = 0x30
const maxNearBytes = 48

/**
 * Reads the JSON object in a frame: its members may stand in any order, with any spaces and escapes. Null where the frame
 * contains anything else, or more than `maxValues` values. A frame with sound costs as much as the search for its closing
 * quote. Names are decoded here, because the `JSON.parse` of V8 13.6 can confuse escaped ones.
 */
export function readFrame(frame: Buffer, maxValues = Number.POSITIVE_INFINITY): ReadFrame | null {
  const reader = new FrameReader(frame, maxValues)
  try {
    return { event: reader.document(), hasDuplicates: reader.hasDuplicates }
  } catch (error) {
    if (error instanceof SyntaxError) return null
    throw error
  }
}

/** The size of a text in bytes of UTF-8, 0 for any other value. */
export function textBytes(value: unknown): number {
  if (value instanceof LongText) return value.bytes
  return typeof value === 'string' ? Buffer.byteLength(value) : 0
}

export function isText(value: unknown): value is string | LongText {
  return typeof value === 'string' || value instanceof LongText
}

/** The bytes of a value as compact JSON, however it was written. `sizeOf` gives the size of an object that counts otherwise. */
export function jsonBytes(value: unknown, sizeOf: (object: Json) => number | null = () => null): number {
  if (isText(value)) return textBytes(value) + 2
  if (Array.isArray(value)) return value.reduce((sum: number, item) => sum + jsonBytes(item, sizeOf) + 1, 1)
  if (typeof value !== 'object' || value === null) return String(value).length
  const own = sizeOf(value as Json)
  if (own !== null) return own
  let sum = 1
  for (const [name, member] of Object.entries(value)) sum += textBytes(name) + 4 + jsonBytes(member, sizeOf)
  return sum
}

/** Reads a document once, from its beginning. Throws a SyntaxError. */
class FrameReader {
  hasDuplicates = false
  readonly #frame: Buffer
  #at = 0
  #valuesLeft: number

  constructor(frame: Buffer, maxValues: number) {
    this.#frame = frame
    this.#valuesLeft = maxValues
  }

  document(): Json {
    if (this.#next() !== openBrace) throw new SyntaxError('not an object')
    const object = this.#object(0)
    if (this.#next() !== undefined) throw new SyntaxError('more than one value')
    return object
  }

  /** The next byte that is not a space; undefined at the end. */
  #next(): number | undefined {
    while (this.#frame[this.#at]! <= space) this.#at++
    return this.#frame[this.#at]
  }

  #skip(byte: number | undefined): boolean {
    if (this.#next() !== byte) return false
    this.#at++
    return true
  }

  #value(depth: number): unknown {
    if (--this.#valuesLeft < 0 || depth > maxDepth) throw new SyntaxError('too large')
    const first = this.#next()
    if (first === quote) return this.#text()
    if (first === openBrace) return this.#object(depth)
    return first === openBracket ? this.#list(depth) : this.#scalar()
  }

  #object(depth: number): Json {
    const object: Json = {}
    this.#at++
    if (this.#skip(closeBrace)) return object
    do {
      const name = this.#next() === quote ? this.#text() : null
      if (typeof name !== 'string' || !this.#skip(colon)) throw new SyntaxError('no member')
      this.hasDuplicates ||= Object.hasOwn(object, name)
      const value = this.#value(depth + 1)
      if (name === '__proto__') Object.defineProperty(object, name, { value, enumerable: true, configurable: true })
      else object[name] = value
    } while (this.#skip(comma))
    if (!this.#skip(closeBrace)) throw new SyntaxError('an object without its end')
    return object
  }

  #list(depth: number): unknown[] {
    const list: unknown[] = []
    this.#at++
    if (this.#skip(closeBracket)) return list
    do list.push(this.#value(depth + 1))
    while (this.#skip(comma))
    if (!this.#skip(closeBracket)) throw new SyntaxError('a list without its end')
    return list
  }

  #text(): string | LongText {
    const from = this.#at + 1
    const near = this.#nearQuote(from)
    if (near >= 0) {
      this.#at = near + 1
      return this.#frame.toString('latin1', from, near)
    }
    const to = closingQuote(this.#frame, this.#at)
    if (to < 0) throw new SyntaxError('a string without its end')
    this.#at = to + 1
    if (to - from > maxTextBytes) {
      const bytes = decodedBytes(this.#frame, from, to)
      if (bytes > maxTextBytes) return new LongText(bytes)
    }
    const text = this.#frame.toString('utf8', from, to)
    return text.includes('\\') ? JSON.parse(`"${text}"`) : text
  }

  /** The closing quote of a short string without escapes, as most are; -1 for any other. */
  #nearQuote(from: number): number {
    for (let at = from; at < from + maxNearBytes; at++) {
      const byte = this.#frame[at]!
      if (byte === quote) return at
      if (!isPlain(byte)) return -1
    }
    return -1
  }

  /** A number, `true`, `false` or `null`. */
  #scalar(): unknown {
    const from = this.#at
    let digits = 0
    while (isScalar(this.#frame[this.#at])) {
      const digit = this.#frame[this.#at++]! - zero
      digits = digit >= 0 && digit <= 9 ? digits * 10 + digit : Number.NaN
    }
    const isShort = this.#at - from < 16 && (this.#frame[from] !== zero || this.#at === from + 1)
    if (isShort && digits >= 0 && this.#at > from) return digits
    return JSON.parse(this.#frame.toString('latin1', from, this.#at))
  }
}

/** Whether a byte is an ASCII character other than a backslash. */
function isPlain(byte: number | undefined): boolean {
  return byte !== undefined && byte >= space && byte < 0x80 && byte !== backslash
}

function isScalar(byte: number | undefined): boolean {
  return byte !== undefined && byte > space && byte !== comma && byte !== closeBrace && byte !== closeBracket
}

/** The size of a string without its escapes. */
function decodedBytes(frame: Buffer, from: number, to: number): number {
  const first = frame.subarray(from, to).indexOf(backslash!)
  if (first < 0) return to - from
  let bytes = first
  let at = from + first
  while (at < to) {
    if (frame[at] !== backslash) {
      at++
      bytes++
    } else if (frame[at + 1] === letterU) {
      bytes += utf8Bytes(Number.parseInt(frame.toString('latin1', at + 2, at + 6), 16))
      at += 6
    } else {
      at += 2
      bytes++
    }
  }
  return bytes
}

/** Two for each half of a surrogate pair. */
function utf8Bytes(code: number): number {
  if (code < 0x80) return 1
  return code < 0x800 || (code >= 0xd800 && code < 0xe000) ? 2 : 3
}
