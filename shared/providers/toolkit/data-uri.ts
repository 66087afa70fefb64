/** The content of a `data:` URI in base64. */
export type InlineFile = { mediaType: string; data: string }

/** Longer heads are no media type with its parameters. */
const maxHeadCharacters = 300
const head = /^data:([a-z0-9.+-]+\/[a-z0-9.+-]+)?(?:;[^;,]*)*?;base64,/i
const base64 = /^[A-Za-z0-9+/]+={0,2}$/

/** Base64 without the line breaks that some encoders write (RFC 2045); null if it is none. */
export function base64Of(text: string): string | null {
  const data = /\s/.test(text) ? text.replace(/\s+/g, '') : text
  return base64.test(data) ? data : null
}

/** Reads a base64 data URI; null if it is none. The type of an image is that of its bytes, whatever its label says. */
export function readDataUri(uri: string): InlineFile | null {
  const [start, label = ''] = head.exec(uri.slice(0, maxHeadCharacters)) ?? []
  const data = start === undefined ? null : base64Of(uri.slice(start.length))
  if (data === null) return null
  const mediaType = label.toLowerCase().replace(/^image\/jpg$/, 'image/jpeg')
  return { mediaType: imageTypeOf(data) ?? mediaType, data }
}

/** The text of a document that is text, such as Markdown, CSV or JSON; null for one of another type. */
export function textOfFile({ mediaType, data }: InlineFile): string | null {
  const isText = mediaType.startsWith('text/') || mediaType === 'application/json'
  const text = isText ? Buffer.from(data, 'base64').toString() : '\0'
  return text.includes('\0') ? null : text
}

/** The type of an image by its first bytes; null for other formats. */
function imageTypeOf(data: string): string | null {
  const bytes = Buffer.from(data.slice(0, 16), 'base64').toString('latin1')
  if (bytes.startsWith('\x89PNG')) return 'image/png'
  if (bytes.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (bytes.startsWith('GIF8')) return 'image/gif'
  return bytes.startsWith('RIFF') && bytes.endsWith('WEBP') ? 'image/webp' : null
}
