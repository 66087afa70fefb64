import { GatewayError } from '../../base/errors.ts'
import { parseJson } from '../../base/json.ts'

type Range = { start: number; end: number }
/** A value inside a JSON document, and its byte range: from `start` up to and excluding `end`. */
type FoundValue = Range & { value: unknown }

const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const opens = new Set([0x7b, 0x5b])
const closes = new Set([0x7d, 0x5d])
const openBrace = 0x7b
const closeBrace = 0x7d
const spaces = new Set([0x20, 0x09, 0x0a, 0x0d])

/**
 * The value at a path of names from the document's root object; null if absent. The names are read from the bytes: the
 * `JSON.parse` of V8 13.6 can confuse an escaped name with another one that it has parsed before. Throws a GatewayError
 * 400 where the document, called `what`, is not JSON or names a field twice.
 */
export function findValue(json: Buffer, path: readonly string[], what: string): FoundValue | null {
  parseJson(json, what)
  let range: Range = { start: afterSpaces(json, 0), end: json.length }
  for (const [depth, name] of path.entries()) {
    const [member, ...others] = membersOf(json, range, name)
    const param = path.slice(0, depth + 1).join('.')
    if (others.length > 0) throw new GatewayError('invalid_json', `${what} names \`${param}\` twice.`, { param })
    if (!member) return null
    range = member
  }
  return { ...range, value: JSON.parse(json.toString('utf8', range.start, range.end)) }
}

/** The document with one value replaced; every other byte stays unchanged. */
export function replaceValue(json: Buffer, { start, end }: Range, text: string): Buffer {
  return Buffer.concat([json.subarray(0, start), Buffer.from(text), json.subarray(end)])
}

/**
 * The document with one member added to an object in it, which has none of that name; every other byte stays unchanged.
 */
export function insertMember(json: Buffer, object: Range, name: string, text: string): Buffer {
  const start = object.start + 1
  const isEmpty = json[afterSpaces(json, start)] === closeBrace
  return replaceValue(json, { start, end: start }, `${JSON.stringify(name)}:${text}${isEmpty ? '' : ','}`)
}

/** The members with a name; empty where the value is not an object. */
function membersOf(json: Buffer, { start }: Range, name: string): Range[] {
  const found: Range[] = []
  if (json[start] !== openBrace) return found
  let at = afterSpaces(json, start + 1)
  while (json[at] === quote) {
    const nameEnd = afterString(json, at)
    const valueStart = afterSpaces(json, afterColon(json, nameEnd))
    const end = afterValue(json, valueStart)
    if (JSON.parse(json.toString('utf8', at, nameEnd)) === name) found.push({ start: valueStart, end })
    at = afterSpaces(json, end)
    if (json[at] === comma) at = afterSpaces(json, at + 1)
  }
  return found
}

// The functions below scan a document that is known to be valid.

function afterSpaces(json: Buffer, from: number): number {
  let at = from
  while (spaces.has(json[at]!)) at++
  return at
}

function afterColon(json: Buffer, from: number): number {
  return afterSpaces(json, from) + 1
}

/** `from` is at the opening quote. */
function afterString(json: Buffer, from: number): number {
  let at = from + 1
  while (json[at] !== quote) at += json[at] === backslash ? 2 : 1
  return at + 1
}

function afterValue(json: Buffer, from: number): number {
  if (json[from] === quote) return afterString(json, from)
  if (!opens.has(json[from]!)) return afterScalar(json, from)
  let depth = 0
  let at = from
  do {
    const byte = json[at]!
    if (byte === quote) {
      at = afterString(json, at)
      continue
    }
    if (opens.has(byte)) depth++
    if (closes.has(byte)) depth--
    at++
  } while (depth > 0)
  return at
}

/** A number, `true`, `false` or `null`, inside an object. */
function afterScalar(json: Buffer, from: number): number {
  let at = from
  while (json[at] !== comma && !closes.has(json[at]!) && !spaces.has(json[at]!)) at++
  return at
}
