/** The content of a `data:` URI in base64. `mediaType` is in lower case, empty without a label. */
export type InlineFile = { mediaType: string; data: string }

/** Longer heads are no media type with its parameters. */
const maxHeadCharacters = 1_000
/** Type, parameters and the mark; values of parameters may have commas, quoted or not: `codecs=vp8,opus`. */
const head = /^\s*data:\s*(?:([\w.+-]+\/[\w.+-]+)\s*)?(?:;[^,;=]*(?:=(?:"[^"]*"|[^;"])*)?)*?;\s*base64\s*,/i
const base64 = /^[A-Za-z0-9+/]+={0,2}$/
/** Also in lines (RFC 2045), and of the alphabet for URLs (RFC 4648, section 5). */
const anyBase64 = /^[\w+/=\t\n\f\r -]+$/

export function isDataUri(url: string): boolean {
  return /^\s*data:/i.test(url)
}

/** Any base64 in the standard form; null if it is none. */
export function base64Of(text: string): string | null {
  if (isStandard(text)) return text
  const data = standardBase64(text)
  return isStandard(data) ? data : null
}

function isStandard(text: string): boolean {
  return text.length % 4 === 0 && base64.test(text)
}

/** Base64 as providers take it: in one line, of the standard alphabet, and padded. Any other text as it is. */
export function standardBase64(text: string): string {
  if (!anyBase64.test(text)) return text
  const data = /\s/.test(text) ? withoutSpace(text) : text
  const standard = /[-_]/.test(data) ? data.replaceAll('-', '+').replaceAll('_', '/') : data
  const end = standard.indexOf('=', standard.length - 2)
  const bare = end < 0 ? standard : standard.slice(0, end)
  const missing = -bare.length & 3
  return missing === 3 ? standard : bare + '='.repeat(missing)
}

/** The same of a `data:` URI, or of base64 alone. */
export function standardFile(file: string): string {
  const start = isDataUri(file) ? (base64Start(file) ?? file.length) : 0
  return file.slice(0, start).replace(/\s+/g, '') + standardBase64(file.slice(start))
}

/** ASCII text without white space: a regular expression takes seconds to remove millions of line breaks. */
function withoutSpace(text: string): string {
  const bytes = Buffer.from(text, 'latin1')
  let length = 0
  for (let i = 0; i < bytes.length; i++) if (bytes[i]! > space) bytes[length++] = bytes[i]!
  return bytes.toString('latin1', 0, length)
}

const space = 0x20

/** Where the base64 of a `data:` URI begins; null if it has none. */
export function base64Start(uri: string): number | null {
  const [start] = head.exec(uri.slice(0, maxHeadCharacters)) ?? []
  return start === undefined ? null : start.length
}

/**
 * Reads a base64 `data:` URI as https://fetch.spec.whatwg.org/#data-urls says: with parameters, line breaks, and characters
 * that are percent-encoded. Null if it is none.
 */
export function parseDataUri(uri: string): InlineFile | null {
  const [start, label = ''] = head.exec(uri.slice(0, maxHeadCharacters)) ?? []
  if (start === undefined) return null
  const text = uri.slice(start.length)
  const data = base64Of(text.includes('%') ? decoded(text) : text)
  return data === null ? null : { mediaType: label.toLowerCase(), data }
}

/** Text without percent-encoding; as it is where that is malformed. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
