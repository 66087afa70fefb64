// How the detectors read a text: what looks the same to a reader is the same, and escapes of JSON are no letters.

/** A text as it is read, and where its characters stand in the text that was given. */
type ReadText = {
  read: string
  /** The position in the given text of a position in `read`, as the beginning or as the end of something. */
  beginOf(at: number): number
  endOf(at: number): number
}

/** An escape of JSON; one that is cut off has no end. */
const jsonEscapes = /\\(?:u[\da-fA-F]{0,3}$|$|u[\da-fA-F]{4}|.)/gs
/** The same in other text, which may be a piece of JSON, of a log or of code: a backslash before another sign is itself. */
const textEscapes = /\\(?:u[\da-fA-F]{0,3}$|$|u[\da-fA-F]{4}|["\\/bfnrt])/g
const cutOff = /^\\(?:u[\da-fA-F]{0,3})?$/

/** Soft hyphens, and characters without a width, with which web pages and word processors break long values. */
const invisible = /[\u00ad\u200b-\u200d\u2060\ufeff]/
/** Spaces and hyphens that do not break or have another width, forms of full width, and digits of other scripts. */
const alike = /[\u2000-\u200a\u202f\u205f\u3000\u2010-\u2015\u2212\ufe63\uff01-\uff5e[[\p{Nd}&&[\0-\uffff]]--[0-9]]]/gv
const beyondAscii = /[^\0-\x7f]/
const digit = /^\p{Nd}$/u
const fullWidth = { from: 0xff01, to: 0xff5e, offset: 0xfee0 }

/**
 * A text as the detectors read it. Escapes are characters that no value has: an escape that is cut off is another one, which is
 * held back. `isJson`: the text is part of JSON, not text that may contain some.
 */
export function readText(text: string, isJson: boolean): ReadText {
  const escapes = isJson ? jsonEscapes : textEscapes
  const plain = text.includes('\\')
    ? text.replace(escapes, found => (cutOff.test(found) ? '\x01' : '\0').repeat(found.length))
    : text
  if (!beyondAscii.test(plain)) return { read: plain, beginOf: identity, endOf: identity }
  const written = plain.replace(alike, asciiOf)
  if (!invisible.test(written)) return { read: written, beginOf: identity, endOf: identity }
  return withoutInvisible(written)
}

function identity(at: number): number {
  return at
}

function withoutInvisible(text: string): ReadText {
  const positions: number[] = []
  let read = ''
  for (let i = 0; i < text.length; i++) {
    const character = text[i]!
    if (invisible.test(character)) continue
    read += character
    positions.push(i)
  }
  return {
    read,
    beginOf: at => positions[at] ?? text.length,
    endOf: at => (at === 0 ? 0 : positions[at - 1]! + 1),
  }
}

/** The character of ASCII that a character stands for. */
function asciiOf(character: string): string {
  const code = character.charCodeAt(0)
  if (code >= fullWidth.from && code <= fullWidth.to) return String.fromCharCode(code - fullWidth.offset)
  if (digit.test(character)) return digitOf(code)
  return /\s/.test(character) ? ' ' : '-'
}

/** Unicode has the digits of every script in a row, from zero to nine. */
function digitOf(code: number): string {
  let zero = code
  while (digit.test(String.fromCharCode(zero - 1))) zero--
  return String((code - zero) % 10)
}
