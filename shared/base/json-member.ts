/** Reads the text of JSON that has been parsed before: none of this finds out whether a text is JSON. */

const [quote, brace, bracket, closingBrace, closingBracket, comma, backslash, space] = Array.from('"{[}],\\ ', sign =>
  sign.charCodeAt(0),
)

/**
 * The value of a member of an object as it is written. Takes the text of the object, which must be JSON, and the member's name, which
 * needs no escapes; null where the object does not name the member exactly once, or hides a name behind escapes. Takes time linear
 * in the text.
 */
export function memberText(text: string, name: string): string | null {
  let found: string | null = null
  let at = afterSpace(text, afterSpace(text, 0) + 1)
  while (text.charCodeAt(at) === quote) {
    const nameEnd = stringEnd(text, at)
    const written = text.slice(at + 1, nameEnd - 1)
    const start = afterSpace(text, afterSpace(text, nameEnd) + 1)
    const end = valueEnd(text, start)
    if (written.includes('\\') || (written === name && found !== null)) return null
    if (written === name) found = text.slice(start, end)
    // Past the comma before the next name; past the brace after the last member there is nothing.
    at = afterSpace(text, afterSpace(text, end) + 1)
  }
  return found
}

/** Where the value that starts at `start` ends. */
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
/** Characters that are looked at one by one: the native search is fast over a list of numbers, and its call costs as much as these. */
const nearCharacters = 32

/** Where the object or list that starts at `start` ends. */
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

/** Where the string that starts with the quote at `open` ends. */
function stringEnd(text: string, open: number): number {
  let at = open + 1
  for (;;) {
    at = text.indexOf('"', at)
    let run = at
    while (text.charCodeAt(run - 1) === backslash) run--
    at++
    // Backslashes escape each other in pairs.
    if ((at - run) % 2 === 1) return at
  }
}

function afterSpace(text: string, start: number): number {
  let at = start
  while (text.charCodeAt(at) <= space!) at++
  return at
}
