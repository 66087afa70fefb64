import { type Bytes, peek } from '../bytes.ts'
import { soundType } from './sound-type.ts'

/** A file format as detected from bytes. `type` is null for formats of no such type, e.g. a mesh. */
export type MediaFormat = {
  contentType: string
  extension: string
  type: 'image' | 'audio' | 'video' | 'document' | null
}

/** Number of leading bytes that identify a file's format. */
export const sniffedBytes = 16 * 1024

const formats: readonly MediaFormat[] = [
  ...rows('image', {
    'image/jpeg': 'jpg',
    'image/png': 'png',
    'image/apng': 'png',
    'image/gif': 'gif',
    'image/webp': 'webp',
    'image/avif': 'avif',
    'image/heic': 'heic',
    'image/heif': 'heif',
    'image/bmp': 'bmp',
    'image/tiff': 'tiff',
  }),
  ...rows('audio', {
    'audio/mpeg': 'mp3',
    'audio/wav': 'wav',
    'audio/ogg': 'ogg',
    'audio/flac': 'flac',
    'audio/aac': 'aac',
    'audio/mp4': 'm4a',
    'audio/webm': 'webm',
    'audio/aiff': 'aiff',
    'audio/amr': 'amr',
    'audio/ac3': 'ac3',
    'audio/ape': 'ape',
    'audio/basic': 'au',
    'audio/wavpack': 'wv',
    'audio/x-caf': 'caf',
    'audio/x-ms-wma': 'wma',
    'audio/x-tta': 'tta',
    'audio/x-w64': 'w64',
  }),
  ...rows('video', {
    'video/mp4': 'mp4',
    'video/quicktime': 'mov',
    'video/webm': 'webm',
    'video/x-matroska': 'mkv',
    'video/mp2t': 'ts',
    'video/mpeg': 'mpg',
    'video/3gpp': '3gp',
    'video/3gpp2': '3g2',
    'video/ogg': 'ogv',
    'video/vnd.avi': 'avi',
    'video/x-flv': 'flv',
    'video/x-ms-wmv': 'wmv',
  }),
  ...rows('document', {
    'application/pdf': 'pdf',
    'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
    'application/vnd.openxmlformats-officedocument.presentationml.presentation': 'pptx',
    'application/vnd.oasis.opendocument.text': 'odt',
    'application/vnd.oasis.opendocument.presentation': 'odp',
    'application/rtf': 'rtf',
    'application/epub+zip': 'epub',
  }),
  ...rows(null, {
    'model/gltf-binary': 'glb',
    'model/gltf+json': 'gltf',
    'model/obj': 'obj',
    'model/vnd.usdz+zip': 'usdz',
    'model/stl': 'stl',
    'model/3mf': '3mf',
    'application/x-ft-fbx': 'fbx',
    'application/zip': 'zip',
    'application/json': 'json',
    'application/jsonl': 'jsonl',
    'text/plain': 'txt',
  }),
]
const byContentType = new Map(formats.map(format => [format.contentType, format]))

/** Other names for the same formats. */
const names: Readonly<Record<string, string>> = {
  // With a skeleton before its tracks (nothings/stb#678): what they are, is measured.
  'application/ogg': 'video/ogg',
  'image/apng': 'image/png',
  // Bursts and animations (ISO/IEC 23008-12), which begin with a still like all others.
  'image/heic-sequence': 'image/heic',
  'image/heif-sequence': 'image/heif',
  'audio/vnd.dolby.dd-raw': 'audio/ac3',
  'audio/x-m4a': 'audio/mp4',
  'audio/x-ms-asf': 'audio/x-ms-wma',
  'audio/x-wav': 'audio/wav',
  'audio/ogg; codecs=opus': 'audio/ogg',
  'video/x-m4v': 'video/mp4',
  'application/vnd.ms-asf': 'video/x-ms-wmv',
  'video/x-ms-asf': 'video/x-ms-wmv',
  'video/matroska': 'video/x-matroska',
  'video/MP2P': 'video/mpeg',
  'video/MP1S': 'video/mpeg',
}

function rows(type: MediaFormat['type'], extensions: Record<string, string>): MediaFormat[] {
  return Object.entries(extensions).map(([contentType, extension]) => ({ contentType, extension, type }))
}

/** Maximum size of an ID3 tag before the sound itself; it may hold a cover. */
const maxTagBytes = 2 * 1024 * 1024

/** Looks at the beginning of a body: as much as `sniff` needs. */
export async function peekHead(body: Bytes): Promise<{ head: Buffer; body: Bytes }> {
  const peeked = await peek(body, sniffedBytes)
  const tagBytes = id3Bytes(peeked.head)
  return tagBytes === 0 || tagBytes > maxTagBytes ? peeked : peek(peeked.body, tagBytes + sniffedBytes)
}

/** The length of the ID3v2 tag that a file begins with; 0 without one. */
function id3Bytes(head: Uint8Array): number {
  if (Buffer.from(head.subarray(0, 3)).toString('latin1') !== 'ID3' || head.length < 10) return 0
  const footerBytes = (head[5]! & 0x10) === 0 ? 0 : 10
  const contentBytes = head.subarray(6, 10).reduce((bytes, septet) => bytes * 128 + (septet & 127), 0)
  return 10 + contentBytes + footerBytes
}

/** Detects a file's format from its first bytes, those of `peekHead`; null if it is unknown here. */
export async function sniff(head: Uint8Array): Promise<MediaFormat | null> {
  const type = await sniffType(head)
  return type === null ? null : formatOf(type)
}

/** Detects a file's content type from its first bytes, of any detectable format; null for plain text. */
export async function sniffType(head: Uint8Array): Promise<string | null> {
  const { fileTypeFromBuffer } = await import('file-type')
  const found = (await fileTypeFromBuffer(head))?.mime
  if (found) return found
  if (isTiff(head)) return 'image/tiff'
  return soundType(Buffer.from(head)) ?? (isPdf(head) ? 'application/pdf' : null)
}

/** PDF readers search this many bytes for the signature. */
export const pdfHeadBytes = 1_024
export const pdfMark = '%PDF-'

function isPdf(head: Uint8Array): boolean {
  return Buffer.from(head.subarray(0, pdfHeadBytes)).includes(pdfMark)
}

/** TIFF in either byte order, and BigTIFF; the directory that the library reads as well may be at the end of the file. */
function isTiff(head: Uint8Array): boolean {
  return /^(?:II[*+]\0|MM\0[*+])/.test(Buffer.from(head.subarray(0, 4)).toString('latin1'))
}

/** The format of a content type as in a header; null if it is unknown here. */
export function formatOf(contentType: string): MediaFormat | null {
  return byContentType.get(names[contentType] ?? contentType) ?? null
}

/** The usual file extension of a content type, `bin` if there is none. */
export function extensionOf(contentType: string): string {
  return formatOf(contentType)?.extension ?? 'bin'
}
