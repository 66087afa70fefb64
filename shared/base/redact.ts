import {
  emails,
  hints,
  namedValues,
  namesSecret,
  secrets,
  tokens,
  urlParameters,
  urlPasswords,
} from './secret-forms.ts'

const secretRemoved = '[secret removed]'
const keyBegin = /-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----/g
const keyEnd = '-----END '

/** Strings that are files: `data:` URIs, and long runs of base64. */
const files = /"(?:data:[^"]*|[A-Za-z0-9+/=_-]{4096,})"/g
/** The same, of a whole decoded string: they have no secrets, and are long. */
const isFile = /^(?:data:[^,\s]{0,200};base64,[A-Za-z0-9+/=_-]*|[A-Za-z0-9+/=_-]{4096,})$/

/** The shortest text that can be a secret by its form. */
const minSecretLength = 8
/** What numbers and signs do not have. */
const letters = /[A-Za-z]{3}/
/** JSON within strings of JSON is read as far as this; each level is at least half as long as the one around it. */
const maxNesting = 6
/** Values of a member such as `password` that are no password, but what a schema says of it. */
const schemaWords = new Set([
  'string',
  'number',
  'boolean',
  'integer',
  'object',
  'array',
  'null',
  'true',
  'false',
  'required',
])

type RedactRules = { emails: boolean }
type Redacted = { text: string; count: number }

/**
 * Removes secrets, and email addresses if wanted; returns how many. Of JSON, whole or cut off, every string is read as it is
 * meant, with its escapes, JSON within strings included; all else keeps its characters. Runs in linear time.
 */
export function redact(text: string, rules: RedactRules): Redacted {
  const redacted = redactNested(text, rules, 0)
  // The pieces of which an answer's probabilities are given add up to its text.
  return redacted.count > 0 && redacted.text.includes('"logprobs"') ? withoutLogprobs(redacted) : redacted
}

/** A message of an error without secrets. */
export function redactMessage(message: string): string {
  return redact(message, { emails: false }).text
}

/** Replaces the files inside JSON text by a mark. */
export function withoutFiles(json: string): string {
  return json.replace(files, '"[file removed]"')
}

function redactNested(text: string, rules: RedactRules, nesting: number): Redacted {
  const isJson = nesting < maxNesting && /^\s{0,1000}[{[]/.test(text)
  return isJson ? new JsonRedaction(text, rules, nesting).run() : redactPlain(text, rules)
}

/** Redacts JSON string by string. What is outside of strings, in text that only resembles JSON, is read as plain text. */
class JsonRedaction {
  readonly #json: string
  readonly #rules: RedactRules
  readonly #nesting: number
  #count = 0
  #out = ''
  /** Everything before is in `#out`. */
  #written = 0
  /** Whether the next string is the value of a member whose name says that it is secret, or in its list. */
  #isNamed = false

  constructor(json: string, rules: RedactRules, nesting: number) {
    this.#json = json
    this.#rules = rules
    this.#nesting = nesting
  }

  run(): Redacted {
    const json = this.#json
    let at = 0
    while (at < json.length) {
      const open = json.indexOf('"', at)
      const next = open < 0 ? json.length : open
      this.#between(at, next)
      if (open < 0) break
      at = endOfString(json, open)
      this.#string(open, at)
    }
    const text = this.#count === 0 ? json : this.#out + json.slice(this.#written)
    return { text, count: this.#count }
  }

  /** What is between two strings: numbers and signs, unless this is no JSON. */
  #between(from: number, to: number): void {
    if (to - from < minSecretLength) {
      // The value of a name is the next string, directly or in a list.
      if (this.#isNamed) this.#isNamed = /^[\s:,[]*$/.test(this.#json.slice(from, to))
      return
    }
    this.#isNamed &&= /^[\s:,[]{0,1000}$/.test(this.#json.slice(from, Math.min(to, from + 1_000)))
    const part = this.#json.slice(from, to)
    if (!letters.test(part)) return
    const { text, count } = redactPlain(part, this.#rules)
    if (count > 0) this.#replace(from, to, text, count)
  }

  #string(open: number, end: number): void {
    const json = this.#json
    const isWhole = json.charCodeAt(end - 1) === quote && end - 1 > open
    const isName = isWhole && isNameAt(json, end)
    const raw = json.slice(open + 1, isWhole ? end - 1 : end)
    if (isName) {
      const name = raw.length > maxNameCharacters ? raw : decoded(raw)
      this.#isNamed = name !== null && namesSecret(name)
    }
    if (!isName && this.#isNamed && this.#removeNamed(raw, open, end, isWhole)) return
    if (raw.length < minSecretLength || isFile.test(raw)) return
    const text = decoded(isWhole ? raw : withoutPartialEscape(raw))
    const { text: redacted, count } =
      text === null ? redactPlain(raw, this.#rules) : redactNested(text, this.#rules, this.#nesting + 1)
    if (count === 0) return
    const written = text === null ? redacted : JSON.stringify(redacted).slice(1, -1)
    this.#replace(open, end, `"${written}${isWhole ? '"' : ''}`, count)
  }

  #removeNamed(raw: string, open: number, end: number, isWhole: boolean): boolean {
    if (raw === '' || schemaWords.has(raw) || raw === secretRemoved) return false
    this.#replace(open, end, `"${secretRemoved}${isWhole ? '"' : ''}`, 1)
    return true
  }

  #replace(from: number, to: number, text: string, count: number): void {
    this.#out += this.#json.slice(this.#written, from) + text
    this.#written = to
    this.#count += count
  }
}

const quote = 0x22
const backslash = 0x5c
const colon = 0x3a
const maxNameCharacters = 400

/** The position after a string's closing quote; the end of the text if it has none. */
function endOfString(json: string, open: number): number {
  for (let at = open + 1; at < json.length; at++) {
    const code = json.charCodeAt(at)
    if (code === quote) return at + 1
    if (code === backslash) at++
  }
  return json.length
}

/** Whether a colon follows. */
function isNameAt(json: string, end: number): boolean {
  let at = end
  while (json.charCodeAt(at) <= 0x20) at++
  return json.charCodeAt(at) === colon
}

/** The text of a string in JSON; null if it is none. */
function decoded(raw: string): string | null {
  if (!raw.includes('\\')) return raw
  try {
    return JSON.parse(`"${raw}"`)
  } catch {
    return null
  }
}

/** A string without the incomplete escape that it may end with where it was cut off. */
function withoutPartialEscape(raw: string): string {
  return raw.replace(/\\(?:u[\da-fA-F]{0,3})?$/, '')
}

/** An escape of a letter, a digit or a sign in text that is not JSON. */
const escapes = /\\u00([2-7][\da-f])/gi

/** Redacts text. Where it has escapes that spell more secrets, these are written as what they spell. */
function redactPlain(text: string, rules: RedactRules): Redacted {
  const redacted = redactText(text, rules)
  if (!text.includes('\\u00')) return redacted
  const spelt = text.replace(escapes, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  const more = redactText(spelt, rules)
  return more.count > redacted.count ? more : redacted
}

function redactText(text: string, rules: RedactRules): Redacted {
  let count = 0
  if (!hints.test(text)) return { text, count }
  const removed = () => {
    count++
    return secretRemoved
  }
  let rest = withoutPrivateKeys(text, () => {
    count++
    return '[private key removed]'
  })
  rest = replaceWithBeginning(rest, tokens, removed).replace(secrets, removed)
  rest = rest.replace(urlPasswords, match => match.slice(0, match.indexOf(':', 3) + 1) + removed())
  rest = rest.replace(urlParameters, match => match.slice(0, match.indexOf('=') + 1) + removed())
  rest = rest.replace(namedValues, match => /^.*?[:=][ \t]{0,4}(?:\\{0,8}["'])?/.exec(match)![0] + removed())
  if (rules.emails)
    rest = replaceWithBeginning(rest, emails, () => {
      count++
      return '[email removed]'
    })
  return { text: rest, count }
}

/** Replaces the matches of a pattern, each with its first group, which is the text before it. */
function replaceWithBeginning(text: string, pattern: RegExp, replacement: () => string): string {
  let rest = ''
  let from = 0
  for (const { index, 0: match, 1: beginning } of text.matchAll(pattern)) {
    rest += text.slice(from, Math.max(from, index - beginning!.length)) + replacement()
    from = index + match.length
  }
  return from === 0 ? text : rest + text.slice(from)
}

/** A key without its end is cut off at the end of the text. */
function withoutPrivateKeys(text: string, replacement: () => string): string {
  let rest = ''
  let from = 0
  for (const { index } of text.matchAll(keyBegin)) {
    if (index < from) continue
    const end = text.indexOf(keyEnd, index)
    const after = end < 0 ? text.length : text.indexOf('-----', end + keyEnd.length)
    rest += text.slice(from, index) + replacement()
    from = after < 0 ? text.length : Math.max(after + 5, end)
  }
  return from === 0 ? text : rest + text.slice(from)
}

function withoutLogprobs({ text, count }: Redacted): Redacted {
  try {
    const remove = (name: string, value: unknown) =>
      name === 'logprobs' && typeof value === 'object' && value !== null ? '[removed]' : value
    return { text: JSON.stringify(JSON.parse(text, remove)), count }
  } catch {
    return { text, count }
  }
}
