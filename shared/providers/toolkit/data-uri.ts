import { type InlineFile, parseDataUri } from '../../base/data-uri.ts'

/** Reads a base64 data URI; null if it is none. The type of an image or a PDF is that of its bytes, whatever its label says. */
export function readDataUri(uri: string): InlineFile | null {
  const file = parseDataUri(uri)
  if (!file) return null
  const { mediaType, data } = file
  return { mediaType: typeOf(data) ?? mediaType.replace(/^image\/jpg$/, 'image/jpeg'), data }
}

/** The text of a document that is text, such as Markdown, CSV or JSON; null for one of another type. */
export function textOfFile({ mediaType, data }: InlineFile): string | null {
  const isText = mediaType.startsWith('text/') || mediaType === 'application/json'
  const text = isText ? Buffer.from(data, 'base64').toString() : '\0'
  return text.includes('\0') ? null : text
}

/** The type of an image or a PDF by its first bytes; null for other formats. */
function typeOf(data: string): string | null {
  const bytes = Buffer.from(data.slice(0, 16), 'base64').toString('latin1')
  if (bytes.startsWith('\x89PNG')) return 'image/png'
  if (bytes.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (bytes.startsWith('GIF8')) return 'image/gif'
  if (bytes.startsWith('%PDF-')) return 'application/pdf'
  return bytes.startsWith('RIFF') && bytes.endsWith('WEBP') ? 'image/webp' : null
}
