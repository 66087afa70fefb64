/** A `data:` URI, or a URL of any scheme. */
const link = /^\s*(?:data:|[a-z][a-z\d+.-]{0,30}:\/\/)/i

/**
 * How the usual files begin in base64: PNG, JPEG, GIF, RIFF (WebP, WAV), TIFF, MP4 and HEIC (`ftyp`), WebM, PDF, ZIP
 * (Office), ID3, Ogg, FLAC, AIFF, SVG and XML; in as many characters as no text has, BMP and frames of MP3 and AAC.
 */
const beginning =
  /^\s*(?:iVBORw0KGgo|\/9j\/|R0lGOD|UklGR|SUkqA|TU0AK|AAAA[\w+/]{2}Z0eX|GkXfo|JVBERi|UEsDB|SUQz|T2dnUw|ZkxhQ|Rk9STQ|PHN2Z|PD94bW|(?:Qk[0-3]|\/\/[E-Pk-v]|\/\+[M-P])[\w+/]{60})/

/** Base64 of a length that no id has. Lines may end in it. */
const long = /^[\w+/\r\n-]{1024,}={0,2}\s*$/

/** Names of ids of files, and of opaque state, which is base64 too and costs no more than its characters. */
const fileId = /(?:^|_)file_?[iI]ds?$|FileIds?$/
const opaque = /encrypted|signature|digest|(?:token|state)$/i

/**
 * Whether a value is or holds what providers read as a file: a URL, the bytes in base64, or the id of a stored one.
 * `name`: of the member whose value it is.
 */
export function looksLikeFile(value: unknown, name: string): boolean {
  if (typeof value === 'string') return value !== '' && isFile(value, name)
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(one => looksLikeFile(one, name))
  for (const inner in value) if (looksLikeFile((value as Record<string, unknown>)[inner], inner)) return true
  return false
}

function isFile(text: string, name: string): boolean {
  if (link.test(text) || fileId.test(name)) return true
  return !opaque.test(name) && (beginning.test(text) || long.test(text))
}
