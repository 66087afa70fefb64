import { isUtf8 } from 'node:buffer'

/** A file whose bytes are text, and how it was encoded. */
type TextFile = {
  text: string
  /** The file with another text, encoded in the same way. */
  encode(text: string): string
}

/** What stands before the base64 of a data URI, and in it the media type. */
const start = /^\s*data:([\w/+.-]{0,100})[\w/+.;=%"-]{0,200};base64,/i
const noBase64 = /[^\w+/=\s-]/
/** Media types of text, with their parameters and with others in front of them (`application/ld+json`). */
const textType =
  /^(?:text\/|application\/(?:[\w.-]+\+)?(?:json|xml|yaml|csv|sql|javascript|typescript)\b|image\/svg\+xml)/i
/** Characters that no text has, and that nearly every longer file of another type has: control characters of ASCII but white space. */
const control = /[\p{Cc}--[\s\x7f-\x9f]]/v
const beyondLatin1 = /[^\0-\xff]/
const pdfStart = '%PDF-'
/** In base64: enough to know a picture, a sound or a document. */
const headLength = 4_096

/** The base64 of a file, alone or in a data URI, in lines or not; null if a text has other signs. */
export function base64In(text: string): string | null {
  const encoded = text.slice(start.exec(text)?.[0].length ?? 0)
  return noBase64.test(encoded) ? null : encoded
}

/**
 * Reads a file in base64, alone or in a data URI; null if it is no text. What its client says of it (`mediaType`, if it is no data
 * URI) is believed if that is a type of text; without that, the bytes decide.
 */
export function readTextFile(encoded: string, mediaType: string): TextFile | null {
  const [prefix, named] = start.exec(encoded) ?? ['', mediaType]
  const isNamedText = textType.test(named!)
  const head = Buffer.from(encoded.slice(prefix!.length, prefix!.length + headLength), 'base64')
  if (!isNamedText && !isText(head.toString(encodingOf(head)))) return null
  const bytes = Buffer.from(encoded.slice(prefix!.length), 'base64')
  const encoding = encodingOf(bytes)
  const text = bytes.toString(encoding)
  if (text === '' || (!isNamedText && !isText(text))) return null
  const encode = (shown: string) => {
    const as = encoding === 'latin1' && beyondLatin1.test(shown) ? 'utf8' : encoding
    return `${prefix}${Buffer.from(shown, as).toString('base64')}`
  }
  return { text, encode }
}

/** Whether a file, or its beginning, is text by what it is. A PDF that is not compressed can look like it. */
function isText(text: string): boolean {
  return !control.test(text) && !text.startsWith(pdfStart)
}

/** In Latin-1 each byte is a character: what is in none of the other encodings keeps its bytes. */
function encodingOf(bytes: Buffer): 'utf16le' | 'utf8' | 'latin1' {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf16le'
  return isUtf8(bytes) ? 'utf8' : 'latin1'
}
