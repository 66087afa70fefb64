import { isUtf8 } from 'node:buffer'
import { GatewayError } from './errors.ts'

const mostDepth = 128
const mostNameCharacters = 200

/**
 * Parses JSON. Throws 400 `invalid_json` for text that is not UTF-8 JSON, is nested deeper than 128, names a field twice, or
 * hides a field's name behind escapes; 400 `invalid_request` for lone surrogates. Messages begin with `what`.
 */
export function parseJson(raw: Buffer, what = 'The body'): unknown {
  if (raw.length === 0) throw new GatewayError('invalid_json', `${what} is empty; send a JSON object.`)
  if (!isUtf8(raw)) throw new GatewayError('invalid_json', `${what} is not valid UTF-8.`)
  const { depth, members, disguised } = scan(raw)
  if (depth > mostDepth) throw new GatewayError('invalid_json', `${what} is nested deeper than ${mostDepth} levels.`)
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

/** A letter, digit or underscore that is written as an escape. */
const escapedLetter = /\\u00(?:3\d|4[1-9a-f]|5[0-9af]|6[1-9a-f]|7[0-9a])/i

/**
 * What parsed JSON no longer tells: how deep the text is nested (it stops at too deep), how many members it writes, and
 * whether the name of one is written with escapes that nobody needs.
 */
function scan(raw: Buffer): { depth: number; members: number; disguised: boolean } {
  let depth = 0
  let deepest = 0
  let members = 0
  let disguised = false
  let from = 0
  let to = 0
  for (let i = 0; i < raw.length && deepest <= mostDepth; i++) {
    const byte = raw[i]
    if (byte === quote) {
      from = i
      i = closingQuote(raw, i)
      to = i
    } else if (byte === colon) {
      members++
      const name = raw.subarray(from, to)
      disguised ||= name.includes(backslash!) && escapedLetter.test(name.toString('latin1'))
    } else if (byte === brace || byte === bracket) deepest = Math.max(deepest, ++depth)
    else if (byte === closingBrace || byte === closingBracket) depth--
    if (i < 0) break // No closing quote: JSON.parse will say so.
  }
  return { depth: deepest, members, disguised }
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
function firstText(value: unknown, bad: (text: string) => boolean, path: string[] = []): string | null {
  if (typeof value === 'string') return bad(value) ? nameOf(path) : null
  if (typeof value !== 'object' || value === null) return null
  for (const [name, member] of Object.entries(value)) {
    const found = bad(name) ? nameOf(path) : firstText(member, bad, [...path, name])
    if (found !== null) return found
  }
  return null
}

/** A path as `param` shows it. A client may name a field with megabytes of text. */
export function nameOf(path: PropertyKey[]): string {
  return path.join('.').slice(0, mostNameCharacters).toWellFormed()
}
