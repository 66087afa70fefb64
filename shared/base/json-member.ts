/** Finds members and strings in text that is already known to be valid JSON: nothing here validates. */

const [quote, brace, bracket, closingBrace, closingBracket, comma, colon, space, backslash] = Array.from(
  '"{[}],: \\',
  sign => sign.charCodeAt(0),
)

/**
 * Returns the raw text of an object member's value. `text` must be a valid JSON object, and `name` must need no
 * escapes. Returns null if the object does not have the member exactly once, or if any name before it is written with
 * escapes. Runs in linear time.
 */
export function memberText(text: string, name: string): string | null {
  let found: string | null = null
  for (const member of membersIn(text)) {
    if (member.name.includes('\\') || (member.name === name && found !== null)) return null
    if (member.name === name) found = text.slice(member.start, member.end)
  }
  return found
}

/**
 * The JSON of `body` with some members changed; an undefined value removes one. If `raw`, the text that `body` was read
 * from, is given, all else keeps its characters and its order, and new members come first. `texts`: values that are
 * already text, as latin1 characters of their UTF-8 bytes.
 */
export function editBody(
  raw: Buffer | null,
  body: object,
  changes: Record<string, unknown>,
  texts: ReadonlyMap<string, string> = new Map(),
): Buffer | string {
  if (!raw) return JSON.stringify({ ...body, ...changes })
  const edits = new Map<string, string | null>()
  let added = ''
  for (const name in changes) {
    const text = changes[name] === undefined ? null : (texts.get(name) ?? asLatin1(changes[name]))
    if (name in body) edits.set(name, text)
    else if (text !== null) added += `${asLatin1(name)}:${text},`
  }
  const edited = editBytes(raw, body, edits)
  if (edited === null) return JSON.stringify({ ...body, ...changes })
  if (added === '') return edited
  const start = edited.indexOf('{') + 1
  return Buffer.concat([edited.subarray(0, start), Buffer.from(added, 'latin1'), edited.subarray(start)])
}

/** Changes members as `editMembers` does. Mostly only one changes, the model's name. */
function editBytes(raw: Buffer, body: object, edits: ReadonlyMap<string, string | null>): Buffer | null {
  const [only, another] = edits
  if (!only) return raw
  const [name, text] = only
  const isString = typeof (body as Record<string, unknown>)[name] === 'string'
  const replaced = another || !isString || text === null ? null : replaceString(raw, name, text)
  if (replaced) return replaced
  const edited = editMembers(raw.toString('latin1'), edits)
  return edited === null ? null : Buffer.from(edited, 'latin1')
}

/**
 * Replaces the string that an object's member is by `text`. Returns null if another string in `raw` is like the name, which may
 * not be repeated. Only the name is searched, which is many times faster than to visit all members.
 */
function replaceString(raw: Buffer, name: string, text: string): Buffer | null {
  const quoted = JSON.stringify(name)
  const nameStart = raw.indexOf(quoted)
  if (nameStart < 0 || raw.includes(quoted, nameStart + 1)) return null
  let start = nameStart + quoted.length
  while (raw[start]! <= space! || raw[start] === colon) start++
  if (raw[start] !== quote) return null
  const end = closingQuote(raw, start) + 1
  return Buffer.concat([raw.subarray(0, start), Buffer.from(text, 'latin1'), raw.subarray(end)])
}

/** JSON as latin1 characters of its UTF-8 bytes. */
function asLatin1(value: unknown): string {
  const json = JSON.stringify(value)
  return beyondAscii.test(json) ? Buffer.from(json).toString('latin1') : json
}

const beyondAscii = /[^\0-\x7f]/

/**
 * Changes members of the object that `text` holds: the new text of a value by its name, null to remove the member. All
 * else keeps its characters and its order; members that the object lacks are not added. Returns null if a name is
 * written with escapes. Runs in linear time.
 */
export function editMembers(text: string, edits: ReadonlyMap<string, string | null>): string | null {
  let out = ''
  let last = 0
  for (const { name, nameStart, start, end } of membersIn(text)) {
    if (name.includes('\\')) return null
    const edit = edits.get(name)
    if (edit !== null) {
      // The first member that is kept has no comma before it.
      out += out === '' && last > 0 ? '{' : text.slice(last, nameStart)
      out += text.slice(nameStart, start) + (edit ?? text.slice(start, end))
    }
    last = end
  }
  return (out || '{') + text.slice(last)
}

/**
 * Changes items of the list that `text` holds: `change` gets the text of each and returns its new text, null to remove
 * it. All else keeps its characters. Runs in linear time, apart from `change`.
 */
export function mapItems(text: string, change: (item: string, index: number) => string | null): string {
  let out = ''
  let last = 0
  let index = 0
  for (let at = afterSpace(text, afterSpace(text, 0) + 1); text.charCodeAt(at) !== closingBracket; index++) {
    const end = valueEnd(text, at)
    const changed = change(text.slice(at, end), index)
    // The first item that is kept has no comma before it.
    if (changed !== null) out += (out === '' && last > 0 ? '[' : text.slice(last, at)) + changed
    last = end
    const next = afterSpace(text, end)
    at = text.charCodeAt(next) === comma ? afterSpace(text, next + 1) : next
  }
  return (out || '[') + text.slice(last || text.indexOf('[') + 1)
}

/** A member of an object: its name as written, and where it and its value are. */
type Member = { name: string; nameStart: number; start: number; end: number }

function* membersIn(text: string): Generator<Member> {
  let at = afterSpace(text, afterSpace(text, 0) + 1)
  while (text.charCodeAt(at) === quote) {
    const nameEnd = stringEnd(text, at)
    const start = afterSpace(text, afterSpace(text, nameEnd) + 1)
    const end = valueEnd(text, start)
    yield { name: text.slice(at + 1, nameEnd - 1), nameStart: at, start, end }
    // Skips the comma before the next name; after the last member it skips the closing brace.
    at = afterSpace(text, afterSpace(text, end) + 1)
  }
}

/** Returns the end of the value that starts at `start`. */
function valueEnd(text: string, start: number): number {
  const first = text.charCodeAt(start)
  if (first === quote) return stringEnd(text, start)
  if (first === brace || first === bracket) return nestEnd(text, start)
  let at = start
  while (!endsScalar(text.charCodeAt(at))) at++
  return at
}

function endsScalar(code: number): boolean {
  return code === comma || code === closingBrace || code <= space!
}

const structure = /["[\]{}]/g
/**
 * Characters scanned one by one first: the native search is fast over a list of numbers, but one call costs as much as
 * scanning these.
 */
const nearCharacters = 32

/** Returns the end of the object or list that starts at `start`. */
function nestEnd(text: string, start: number): number {
  let depth = 0
  let at = start
  let searchAt = start + nearCharacters
  do {
    if (at === searchAt) {
      structure.lastIndex = at
      structure.test(text)
      at = structure.lastIndex - 1
    }
    const code = text.charCodeAt(at)
    if (isStructure(code)) {
      if (code === brace || code === bracket) depth++
      else if (code !== quote) depth--
      at = code === quote ? stringEnd(text, at) : at + 1
      searchAt = at + nearCharacters
    } else at++
  } while (depth > 0)
  return at
}

function isStructure(code: number): boolean {
  return code === quote || code === brace || code === bracket || code === closingBrace || code === closingBracket
}

function afterSpace(text: string, start: number): number {
  let at = start
  while (text.charCodeAt(at) <= space!) at++
  return at
}

/**
 * Finds the ends of strings in JSON, in received bytes and in decoded text. Both are in the hot path, so each scans its own
 * representation; they share the rule that backslashes escape each other in pairs.
 */

const isEscaped = (backslashes: number) => backslashes % 2 === 1

/** Bytes of a string scanned one by one first: one call of the native search costs as much as scanning these. */
const minNearBytes = 16

/**
 * Returns the position of the closing quote of the string that starts at `open`; -1 if there is none. The native search
 * is fast over long text and slow where many quotes are escaped: after each escaped quote, twice as many bytes are
 * scanned one by one.
 */
export function closingQuote(raw: Buffer, open: number): number {
  let at = open + 1
  for (let nearBytes = minNearBytes; at < raw.length; nearBytes *= 2) {
    for (const near = Math.min(at + nearBytes, raw.length); at < near; at++) {
      const byte = raw[at]
      if (byte === quote) return at
      if (byte === backslash) at++
    }
    const next = raw.indexOf(quote!, at)
    // The bytes before it are scanned again, unless the last one cannot escape it.
    if (next < 0 || raw[next - 1] !== backslash) return next
    let run = next
    while (run > at && raw[run - 1] === backslash) run--
    if (!isEscaped(next - run)) return next
    at = next + 1
  }
  return -1
}

/** Returns the position after the string whose opening quote is at `open`, in valid JSON. */
export function stringEnd(text: string, open: number): number {
  for (let at = text.indexOf('"', open + 1); ; at = text.indexOf('"', at + 1)) {
    let run = at
    while (text.charCodeAt(run - 1) === backslash) run--
    if (!isEscaped(at - run)) return at + 1
  }
}
