/**
 * Patterns for client frames that parsers may read in several ways, so that `readFrame` cannot tell what they are: they match
 * whatever could spell a name.
 */

/** An escape of a letter, a full stop or an underscore. */
const letterEscape = String.raw`\\u00(?:2e|5f|[46][1-9a-f]|[57][\da-f])`

/** Matches frames with an escape that could spell the name of an event or a field. */
export const escapedName = new RegExp(letterEscape, 'i')

/** Matches frames with one of the marks, in any case, or with an escape that could spell it. */
export function orEscaped(marks: RegExp): RegExp {
  return new RegExp(`${marks.source}|${letterEscape}`, 'i')
}
