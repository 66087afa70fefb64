import { z } from 'zod'
import { stringEnd } from './json-member.ts'

/**
 * Tools get their arguments, and give results, with numbers that JavaScript's do not hold: an id of 19 digits would be rounded, and
 * `1e400` become null. Where such a number only passes through, it stays as it is written, as a `JSON.rawJSON`. To code that reads
 * it, this is an object (`isRawNumber`); all other numbers stay numbers. See docs/decisions/exact-numbers.md.
 */

// The library of TypeScript does not declare them yet.
const { rawJSON, isRawJSON } = JSON as unknown as {
  rawJSON(text: string): object
  isRawJSON(value: unknown): boolean
}

/** Whether a value of parsed JSON is a number that is kept as it is written. */
export const isRawNumber = isRawJSON

const maxInt64 = 2n ** 63n - 1n

/** An integer of 64 bits, which may be a raw number. */
export const int64 = z
  .custom<number>(value => {
    if (!isRawNumber(value)) return Number.isInteger(value) && Math.abs(value as number) < Number(maxInt64)
    const digits = JSON.stringify(value)
    return /^-?\d{16,19}$/.test(digits) && BigInt(digits) <= maxInt64 && BigInt(digits) >= -maxInt64 - 1n
  }, 'must be a whole number of 64 bits.')
  .meta({ type: 'integer', format: 'int64' })

/** Objects of callers and models: arguments and results of tools. */
const inObjects: ReadonlySet<string> = new Set(['args', 'arguments', 'input', 'functionResponse', 'function_response'])
/** Values within a JSON Schema, and the seed of a request, which has 64 bits at OpenAI. */
const inValues: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'examples', 'seed'])

/** `JSON.parse` of a text that a caller or a model has written as a whole: all its numbers are kept. */
export function parseExact(text: string): unknown {
  const value: unknown = JSON.parse(text)
  new NumberKeeper(text, true).keepIn(value)
  return value
}

/** `JSON.parse` of an API's answer or event, in whose calls numbers are kept. */
export function parseWithCalls(text: string): unknown {
  const value: unknown = JSON.parse(text)
  if (text.includes('"input"') || text.includes('"args"') || text.includes('"arguments"')) keepNumbers(value, text)
  return value
}

/** `JSON.parse` of a stored request, in which numbers are kept as `parseJson` keeps them. */
export function parseStoredRequest(text: string): unknown {
  const value: unknown = JSON.parse(text)
  keepNumbers(value, text)
  return value
}

/** Keeps the numbers of tools in a request or an answer, whose text is `text`. Runs in linear time. */
export function keepNumbers(value: unknown, text: string): void {
  new NumberKeeper(text, false).keepIn(value)
}

const [quote, colon, comma, minus, zero, nine, brace, bracket, closingBrace, closingBracket] = Array.from(
  '":,-09{[}]',
  sign => sign.charCodeAt(0),
)

/** Deeper values are left as they are. */
const maxDepth = 512
/** Of the long numbers of one text; each takes some microseconds. The others are rounded. */
const maxCompared = 10_000
/** Shorter literals without an exponent are exact. */
export const minDigits = 16
/** Longer ones count as not exact. */
const maxComparedDigits = 100

/** An open object or list. */
type Level = {
  value: unknown
  isList: boolean
  isKept: boolean
  /** Of the present item of a list. */
  index: number
  /** Where the name of the present member is in the text, with its quotes. */
  nameStart: number
  nameEnd: number
}

/** Goes through a text, and along it through the value that was parsed from it. */
class NumberKeeper {
  readonly #text: string
  readonly #keepsAll: boolean
  readonly #open: Level[] = []
  #compared = 0

  /** `keepsAll`: also numbers that are not of a tool. */
  constructor(text: string, keepsAll: boolean) {
    this.#text = text
    this.#keepsAll = keepsAll
  }

  keepIn(root: unknown): void {
    const text = this.#text
    let level: Level | undefined
    let stringStart = 0
    let at = 0
    while (at < text.length) {
      const code = text.charCodeAt(at)
      if (code === quote) {
        stringStart = at
        at = stringEnd(text, at)
        continue
      }
      if (code === colon) {
        level!.nameStart = stringStart
        level!.nameEnd = text.lastIndexOf('"', at) + 1
      } else if (code === comma) level!.index++
      else if (code === brace || code === bracket) {
        if (this.#open.length === maxDepth) return
        this.#open.push((level = this.#inner(root, level, code === bracket)))
      } else if (code === closingBrace || code === closingBracket) {
        this.#open.pop()
        level = this.#open.at(-1)
      } else if (level && (code === minus || (code! >= zero! && code! <= nine!))) {
        const end = numberEnd(text, at)
        if (mayChange(text, at, end) && this.#isKept(level)) {
          if (++this.#compared > maxCompared) return
          this.#keep(level, text.slice(at, end))
        }
        at = end
        continue
      }
      at++
    }
  }

  #inner(root: unknown, outer: Level | undefined, isList: boolean): Level {
    const isKept = outer === undefined ? this.#keepsAll : outer.isKept || this.#begins(outer, isList)
    const value = outer === undefined ? root : memberOf(outer.value, this.#keyIn(outer))
    return { value, isList, isKept, index: 0, nameStart: 0, nameEnd: 0 }
  }

  /** Whether the present value of an object is one whose numbers are kept. */
  #begins(outer: Level, isList: boolean): boolean {
    if (outer.isList) return false
    const name = this.#text.slice(outer.nameStart + 1, outer.nameEnd - 1)
    return inValues.has(name) || (!isList && inObjects.has(name))
  }

  /** Whether a number at the present place is kept. */
  #isKept(level: Level): boolean {
    return level.isKept || (!level.isList && inValues.has(String(this.#keyIn(level))))
  }

  #keep(level: Level, source: string): void {
    const key = this.#keyIn(level)
    // A repeated name has the last of its values.
    if (isChanged(source) && memberOf(level.value, key) === Number(source))
      (level.value as Record<string | number, unknown>)[key] = rawJSON(source)
  }

  #keyIn(level: Level): string | number {
    if (level.isList) return level.index
    const name = this.#text.slice(level.nameStart, level.nameEnd)
    return name.includes('\\') ? JSON.parse(name) : name.slice(1, -1)
  }
}

function memberOf(value: unknown, key: string | number): unknown {
  const isHolder = typeof value === 'object' && value !== null && Object.hasOwn(value, key)
  return isHolder ? (value as Record<string | number, unknown>)[key] : undefined
}

const numberSigns = /[-+.\deE]*/y

function numberEnd(text: string, start: number): number {
  numberSigns.lastIndex = start
  numberSigns.test(text)
  return numberSigns.lastIndex
}

/** Beyond these sizes, a number may be infinite, zero, or have less digits. */
const [minSize, maxSize] = [1e-300, 1e300]

function mayChange(text: string, start: number, end: number): boolean {
  if (end - start >= minDigits) return true
  for (let at = start; at < end; at++) if ((text.charCodeAt(at) & 0xdf) === 0x45) return true
  return false
}

/** Whether JavaScript would write a number in other digits. */
function isChanged(source: string): boolean {
  if (source.length > maxComparedDigits) return true
  const size = Math.abs(Number(source))
  if (size > maxSize || size < minSize) return digitsOf(source) !== ''
  return digitsOf(source) !== digitsOf(String(size))
}

/** The digits of a number without zeros at both ends. */
function digitsOf(number: string): string {
  return number
    .replace(/e.*$/i, '')
    .replace(/[-.]/g, '')
    .replace(/^0+|0+$/g, '')
}
