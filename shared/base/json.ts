import { isAscii, isUtf8 } from 'node:buffer'
import { GatewayError } from './errors.ts'

const maxDepth = 128
const maxNameCharacters = 200
/**
 * What a text may hold, so that parsing and validating it takes some tens of milliseconds at the most, however it is made.
 * Numbers are cheap; strings, objects and lists each need memory of their own; an object with many fields is a hash table.
 */
const maxParts = 100_000
const maxValues = 400_000
/** Each name that V8 has not seen before costs up to a microsecond. */
const maxMembers = 50_000
const maxFields = 10_000
/** Of numbers, `true`, `false` and `null`. A number of many digits costs ten times as much as one of a few. */
const maxLiteralBytes = 4 * 1024 * 1024
/** Beyond it, as frames with sound in base64 may be, only ASCII: one other character makes all of a text take twice its bytes. */
const maxWideBytes = 10 * 1024 * 1024

/**
 * Parses JSON. Throws 400 `invalid_json` for text that is not UTF-8 JSON, is nested deeper than 128, names a field twice, or
 * hides a field's name behind escapes; 400 `invalid_request` for lone surrogates, for more than 100,000 strings, objects and
 * lists, 400,000 values, 50,000 fields, 10,000 fields of one object or 4 MiB of numbers, and for more than 10 MiB that are
 * not ASCII. Messages begin with `what`. Takes time linear in the bytes.
 */
export function parseJson(raw: Buffer, what = 'The body'): unknown {
  if (raw.length === 0) throw new GatewayError('invalid_json', `${what} is empty; send a JSON object.`)
  const isPlain = isAscii(raw)
  if (!isPlain && !isUtf8(raw)) throw new GatewayError('invalid_json', `${what} is not valid UTF-8.`)
  if (!isPlain && raw.length > maxWideBytes)
    throw new GatewayError('invalid_request', `${what} has more than 10 MiB and characters beyond ASCII.`)
  const hasEscapes = raw.includes(backslash!)
  const { members, disguised } = scan(raw, hasEscapes, what)
  // The decoder of Latin-1 is the fastest one for ASCII.
  const text = raw.toString(isPlain ? 'latin1' : 'utf8')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new GatewayError('invalid_json', `${what} is not valid JSON: ${(error as Error).message.slice(0, 200)}`)
  }
  // Bytes are passed on as they came, and a provider may read the first of two where we read the last.
  if (members !== membersOf(value)) throw repeated(raw, what)
  // V8 13.6 may read such a name as another one that it has seen before, and a provider reads it rightly.
  if (disguised)
    throw new GatewayError('invalid_json', `${what} names a field by escapes; write its letters as they are.`)
  if (hasEscapes && surrogateEscape.test(text)) {
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

const [quote, backslash, colon, comma, brace, bracket, closingBrace, closingBracket] = Buffer.from('"\\:,{[}]')
/** The largest code of a character that may stand between values. */
const space = 0x20
/** Which bytes mean anything outside of strings. */
const means = Uint8Array.from({ length: 256 }, (_, byte) => Number('":,{[}]'.includes(String.fromCharCode(byte))))

/** The native search for these characters is slow where most of a text is backslashes. */
const surrogateEscape = /\\u[dD]/
/** A letter, digit or underscore that is written as an escape. */
const escapedLetter = /\\u00(?:3\d|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9a])/i

type Scanned = {
  /** How many members the text writes. */
  members: number
  /** Whether the name of one is written with escapes that nobody needs. */
  disguised: boolean
}

/** How many fields the object has that is open at each depth; used by one scan at a time. */
const fields = new Uint32Array(maxDepth + 1)

/**
 * Looks at every byte once, before any memory is spent on what they mean. Stops where the text is no JSON; JSON.parse
 * stops there too. Throws 400 for text that is nested too deep or holds too much.
 */
function scan(raw: Buffer, hasEscapes: boolean, what: string): Scanned {
  let depth = 0
  let members = 0
  let parts = 0
  let values = 1
  let literalBytes = 0
  let disguised = false
  /** The quotes of the last string, until a colon has made it a name. */
  let from = -1
  let to = -1
  fields[0] = 0
  for (let i = 0; i < raw.length; i++) {
    const byte = raw[i]!
    if (means[byte] === 0) {
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
      if (++values > maxValues) throw tooMuch(what, `more than ${commas(maxValues)} values`)
    } else if (byte === colon) {
      if (from < 0) break
      if (++members > maxMembers) throw tooMuch(what, `more than ${commas(maxMembers)} fields`)
      if (hasEscapes) disguised ||= isDisguised(raw, from, to)
      from = -1
      if (++fields[depth]! > maxFields) throw tooMuch(what, `an object with more than ${commas(maxFields)} fields`)
    } else if (byte === brace || byte === bracket) {
      if (++depth > maxDepth)
        throw new GatewayError('invalid_json', `${what} is nested deeper than ${maxDepth} levels.`)
      fields[depth] = 0
      parts++
      if (parts > maxParts) throw tooManyParts(what)
    } else if (--depth < 0) break
  }
  if (literalBytes > maxLiteralBytes) throw tooMuch(what, 'more than 4 MiB of numbers')
  return { members, disguised }
}

function tooManyParts(what: string): GatewayError {
  return tooMuch(what, `more than ${commas(maxParts)} strings, objects and lists`)
}

function tooMuch(what: string, has: string): GatewayError {
  return new GatewayError('invalid_request', `${what} has ${has}: split it into several requests.`)
}

function commas(count: number): string {
  return count.toLocaleString('en-US')
}

/** Whether the name between two quotes has a letter that is written as an escape. */
function isDisguised(raw: Buffer, from: number, to: number): boolean {
  // Names are short, and there may be many: nothing is made for each.
  for (let i = from + 1; i < to; i++) if (raw[i] === backslash) return escapedLetter.test(raw.toString('latin1', i, to))
  return false
}

/** Bytes of a string that are read one by one at first: a call of the native search costs as much as these. */
const minNearBytes = 16

/**
 * Where the string that starts at `open` ends; -1 when it does not. The native search is fast over long text, and slow where
 * many quotes are escaped: after each of those that it finds, twice as many bytes are read one by one.
 */
function closingQuote(raw: Buffer, open: number): number {
  let at = open + 1
  for (let nearBytes = minNearBytes; at < raw.length; nearBytes *= 2) {
    for (const near = Math.min(at + nearBytes, raw.length); at < near; at++) {
      const byte = raw[at]
      if (byte === quote) return at
      if (byte === backslash) at++
    }
    const next = raw.indexOf(quote!, at)
    // What stands before it is looked at again, unless nothing there can escape it.
    if (next < 0 || raw[next - 1] !== backslash) return next
    let run = next
    while (run > at && raw[run - 1] === backslash) run--
    if ((next - run) % 2 === 0) return next
    at = next + 1
  }
  return -1
}

function membersOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) for (let i = 0; i < value.length; i++) count += membersOf(value[i])
  else for (const name in value) count += 1 + membersOf((value as Record<string, unknown>)[name])
  return count
}

/** The error for valid JSON in which an object names a field twice; finds which. */
function repeated(raw: Buffer, what: string): GatewayError {
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
  const param = nameOf([name])
  return new GatewayError('invalid_json', `${what} names the field \`${param}\` twice.`, { param })
}

/** The path of the first string, name or value, of which `bad` is true. Recursion is bounded by the body's depth. */
function firstText(value: unknown, bad: (text: string) => boolean, path: PropertyKey[] = []): string | null {
  if (typeof value === 'string') return bad(value) ? nameOf(path) : null
  if (typeof value !== 'object' || value === null) return null
  // A list may have hundreds of thousands of numbers: nothing is made for each.
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      if (typeof value[i] === 'number') continue
      path.push(i)
      const found = firstText(value[i], bad, path)
      if (found !== null) return found
      path.pop()
    }
    return null
  }
  for (const [name, member] of Object.entries(value)) {
    if (bad(name)) return nameOf(path)
    path.push(name)
    const found = firstText(member, bad, path)
    if (found !== null) return found
    path.pop()
  }
  return null
}

/** A path as `param` shows it. A client may name a field with megabytes of text. */
export function nameOf(path: PropertyKey[]): string {
  return path.join('.').slice(0, maxNameCharacters).toWellFormed()
}
