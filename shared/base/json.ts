import { isAscii, isUtf8 } from 'node:buffer'
import { GatewayError } from './errors.ts'

const mostDepth = 128
const mostNameCharacters = 200
/**
 * What a text may hold, so that parsing and validating it takes some tens of milliseconds at the most, however it is made.
 * Numbers are cheap; strings, objects and lists each need memory of their own; an object with many fields is a hash table.
 */
const maxParts = 100_000
const maxValues = 400_000
const maxFields = 10_000
/** Beyond it, as frames with sound in base64 may be, only ASCII: one other character makes all of a text take twice its bytes. */
const maxWideBytes = 10 * 1024 * 1024

/**
 * Parses JSON. Throws 400 `invalid_json` for text that is not UTF-8 JSON, is nested deeper than 128, names a field twice, or
 * hides a field's name behind escapes; 400 `invalid_request` for lone surrogates, and for more than 100,000 strings, objects
 * and lists, 400,000 values, or 10,000 fields of one object, and for more than 10 MiB that are not ASCII. Messages begin with `what`. Takes time linear in the bytes.
 */
export function parseJson(raw: Buffer, what = 'The body'): unknown {
  if (raw.length === 0) throw new GatewayError('invalid_json', `${what} is empty; send a JSON object.`)
  if (!isUtf8(raw)) throw new GatewayError('invalid_json', `${what} is not valid UTF-8.`)
  if (raw.length > maxWideBytes && !isAscii(raw))
    throw new GatewayError('invalid_request', `${what} has more than 10 MiB and characters beyond ASCII.`)
  const { members, disguised } = scan(raw, what)
  const text = raw.toString()
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
  if (surrogateEscape.test(text)) {
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
/** Which bytes mean anything outside of strings. */
const means = Uint8Array.from({ length: 256 }, (_, byte) => Number('":,{[}]'.includes(String.fromCharCode(byte))))

/** The native search for these characters is slow where most of a text is backslashes. */
const surrogateEscape = /\\u[dD]/
/** A letter, digit or underscore that is written as an escape. */
const escapedLetter = /\\u00(?:3\d|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9a])/i

/**
 * Looks at every byte once, before any memory is spent on what they mean: how many members the text writes, and whether the
 * name of one is written with escapes that nobody needs. Stops where the text is no JSON; JSON.parse stops there too. Throws
 * 400 for text that is nested too deep or holds too much.
 */
function scan(raw: Buffer, what: string): { members: number; disguised: boolean } {
  /** How many fields the object has that is open at each depth. */
  const fields = new Uint32Array(mostDepth + 1)
  let depth = 0
  let members = 0
  let parts = 0
  let values = 1
  let disguised = false
  /** The quotes of the last string, until a colon has made it a name. */
  let from = -1
  let to = -1
  for (let i = 0; i < raw.length; i++) {
    const byte = raw[i]!
    if (means[byte] === 0) continue
    if (byte === quote) {
      from = i
      to = closingQuote(raw, i)
      if (to < 0) break
      i = to
      parts++
    } else if (byte === comma) values++
    else if (byte === colon) {
      if (from < 0) break
      members++
      disguised ||= isDisguised(raw, from, to)
      from = -1
      if (++fields[depth]! > maxFields) throw tooMuch(what, `an object with more than ${commas(maxFields)} fields`)
    } else if (byte === brace || byte === bracket) {
      if (++depth > mostDepth)
        throw new GatewayError('invalid_json', `${what} is nested deeper than ${mostDepth} levels.`)
      fields[depth] = 0
      parts++
    } else if (--depth < 0) break
    if (parts > maxParts) throw tooMuch(what, `more than ${commas(maxParts)} strings, objects and lists`)
    if (values > maxValues) throw tooMuch(what, `more than ${commas(maxValues)} values`)
  }
  return { members, disguised }
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

/** Bytes that are looked at one by one: the native search is fast over long text, and its call costs as much as these. */
const nearBytes = 32

/** Where the string that starts at `open` ends; -1 when it does not. */
function closingQuote(raw: Buffer, open: number): number {
  let at = open + 1
  while (at < raw.length) {
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
  for (const member of Array.isArray(value) ? value : Object.values(value)) count += membersOf(member)
  return Array.isArray(value) ? count : count + Object.keys(value).length
}

/** The error for valid JSON in which an object names a field twice; finds which. */
function repeated(raw: Buffer, what: string): GatewayError {
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
  return path.join('.').slice(0, mostNameCharacters).toWellFormed()
}
