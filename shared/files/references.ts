import { base64Start, isDataUri, parseDataUri } from '../base/data-uri.ts'
import { GatewayError } from '../base/errors.ts'
import { bytesOf, closeBody, limitBytes } from '../io/bytes.ts'
import type { MediaLength } from '../io/media/media-file.ts'
import { countPdfPages, maxMeasuringMs, measureMedia } from '../io/media/media-processes.ts'
import { formatOf, type MediaFormat, peekHead, sniff } from '../io/media/media-type.ts'
import { openPublic } from '../io/safe-url.ts'
import {
  documentId,
  type MediaType,
  type Reference,
  type ReferenceField,
  type References,
  uploadId,
} from '../kinds/media.ts'
import type { Platform } from '../platform.ts'
import type { FileServices } from './file-services.ts'
import { type FileOwner, retainedForJobsMs, type StoredFile } from './files.ts'
import { rangesOf } from './ranges.ts'

const mib = 1024 * 1024
/** Maximum file size by type, in bytes, for uploads and references. */
export const maxBytes: Readonly<Record<MediaType, number>> = {
  image: 10 * mib,
  audio: 20 * mib,
  video: 50 * mib,
  document: 50 * mib,
}
const fetchMs = 30_000
const maxParallel = 4

type Staged = { field: string; reference: Reference; stored: StoredFile | null }

/**
 * Stages every file that a request references in storage: an upload of the same organisation stays in place, a `data:`
 * URI and a public URL are copied. Throws a GatewayError naming the field (400 `url_not_allowed`, 400
 * `invalid_request`, 413, 415) after removing the copies.
 */
export async function stageReferences(
  services: FileServices,
  owner: FileOwner,
  fields: readonly ReferenceField[],
): Promise<References> {
  const remaining = [...fields]
  const staged: Staged[] = []
  let failed = false
  const stageNext = async () => {
    for (let field = remaining.shift(); field && !failed; field = remaining.shift())
      staged.push(await stage(services, owner, field))
  }
  const results = await Promise.allSettled(
    Array.from({ length: Math.min(maxParallel, fields.length) }, () =>
      stageNext().catch(error => {
        failed = true
        throw error
      }),
    ),
  )
  const fault = results.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined
  if (fault) {
    await discard(
      services,
      staged.flatMap(({ stored }) => stored ?? []),
    )
    throw fault.reason
  }
  return Object.fromEntries(staged.map(({ field, reference }) => [field, reference]))
}

async function discard({ files, log }: FileServices, stored: readonly StoredFile[]): Promise<void> {
  await files.remove(stored).catch(error => log.warn({ err: error }, 'references stay until they expire'))
}

/** The storage key of an own file, by its signed URL or the id of an upload or document; null for a file from elsewhere. */
async function findKey(
  services: FileServices,
  owner: FileOwner,
  { url, type }: ReferenceField,
): Promise<string | null> {
  const { blobs, files } = services
  if (isDataUri(url)) return null
  if (type === 'document' && documentId.test(url)) {
    const file = await files.find(url, owner)
    if (file?.purpose !== 'ocr') throw missingFile()
    return file.storageKey
  }
  if (!uploadId.test(url)) return blobs.keyOf(url)
  const key = await files.findUploadKey(owner.organisationId, url)
  if (key === null) throw missingFile()
  return key
}

function missingFile(): GatewayError {
  return new GatewayError('url_not_allowed', 'There is no such file any more. Upload it again.')
}

async function stage(services: FileServices, owner: FileOwner, field: ReferenceField): Promise<Staged> {
  try {
    const key = await findKey(services, owner, field)
    const stored = key === null ? await copy(services, owner, field) : null
    try {
      const file = stored ?? (await findOwnFile(services, owner.organisationId, field, key!))
      return { field: field.field, reference: await examineFile(services, owner, field, file), stored }
    } catch (error) {
      if (stored) await discard(services, [stored])
      throw error
    }
  } catch (error) {
    if (!(error instanceof GatewayError) || error.param !== null) throw error
    throw new GatewayError(error.code, error.message, { param: field.field, cause: error.cause })
  }
}

const copies = /^references\/.*\/([^/]+)\.\w+$/

/** Removes the copies of a request that failed; uploads stay. */
export async function dropReferences({ files, log }: FileServices, references: References): Promise<void> {
  const copiedFiles = Object.values(references).flatMap(({ storageKey }) => {
    const [, fileId] = copies.exec(storageKey) ?? []
    return fileId ? [{ fileId, storageKey }] : []
  })
  await files.remove(copiedFiles).catch(error => log.warn({ err: error }, 'references stay until they expire'))
}

type SourceFile = { storageKey: string; contentType: string; bytes: number; filename: string }

/** Finds an upload, which must belong to the same organisation. */
async function findOwnFile(
  { files }: FileServices,
  organisationId: string,
  field: ReferenceField,
  key: string,
): Promise<SourceFile> {
  const row = await files.retain(organisationId, key)
  if (!row) throw missingFile()
  const { storageKey, contentType, filename } = row
  const bytes = Number(row.bytes)
  const max = field.maxBytes ?? maxBytes[field.type]
  if (bytes > max) throw tooLarge(field.type, max)
  return { storageKey, contentType, bytes, filename }
}

async function copy(services: FileServices, { organisationId, environment }: FileOwner, reference: ReferenceField) {
  const { field, url, type, maxBytes: max = maxBytes[type] } = reference
  const source = isDataUri(url)
    ? bytesOf(fromDataUri(url))
    : (await openPublic(url, { ...services.urlPolicy, maxBytes: max, timeoutMs: fetchMs, param: field })).stream
  const { head, body } = await peekHead(source)
  try {
    if (head.length === 0) throw new GatewayError('invalid_request', 'The file is empty.')
    const format = await sniff(head)
    if (!format || !fits(format, reference)) throw wrongType(type, format?.contentType)
    const filename = nameIn(url) ?? `${field}.${format.extension}`
    const stored = await services.files.store(
      limitBytes(body, max, () => tooLarge(type, max)),
      {
        organisationId,
        environment,
        purpose: 'reference',
        filename,
        contentType: format.contentType,
        expiresAtMs: services.clock.now() + retainedForJobsMs,
      },
    )
    return { ...stored, filename }
  } finally {
    await closeBody(body)
  }
}

const maxName = 100

/** The file name at the end of a URL. */
function nameIn(url: string): string | null {
  if (isDataUri(url)) return null
  const name = new URL(url).pathname.split('/').at(-1)!.slice(-maxName)
  return /^[\w-][\w.-]*\.\w{2,4}$/.test(name) ? name : null
}

/** What the providers of media jobs take as sound; those of transcription take more. */
const usualSound: ReadonlySet<string> = new Set(['mp3', 'wav', 'ogg', 'flac', 'aac', 'm4a', 'webm'])

/** Video containers may hold audio alone. */
function fits({ type, extension }: MediaFormat, field: ReferenceField): boolean {
  if (field.type === 'document') return type === 'document' || type === 'image'
  if (field.type !== 'audio') return type === field.type
  return type === 'video' || (type === 'audio' && (field.anySound === true || usualSound.has(extension)))
}

/** Verifies a file's type and, if required, measures its duration. */
async function examineFile(
  services: Platform,
  owner: FileOwner,
  field: ReferenceField,
  file: SourceFile,
): Promise<Reference> {
  const { storageKey, contentType, bytes, filename } = file
  const { type, measured } = field
  const format = formatOf(contentType)
  if (!format || !fits(format, field)) throw wrongType(type, contentType)
  const ranges = rangesOf(services.blobs, storageKey, bytes)
  if (type === 'document') {
    const isCounted = measured && contentType === 'application/pdf'
    const pages = isCounted ? await countPdfPages(ranges, maxMeasuringMs, owner) : null
    return { storageKey, contentType, bytes, filename, durationS: null, pages }
  }
  const contains = type !== 'image' && (measured || format.type !== type)
  const length = contains ? await measureMedia(ranges, maxMeasuringMs, owner) : null
  if (contains && !length)
    throw new GatewayError('invalid_request', `The file cannot be read as ${type}, or it has no length.`)
  if (length && !hasExpectedTracks(length, field)) throw wrongType(type, contentType)
  return {
    storageKey,
    contentType: length?.hasVideo ? contentType : contentType.replace(/^video\/(mp4|webm|ogg)$/, 'audio/$1'),
    bytes,
    filename,
    durationS: measured && length ? (type === 'audio' ? length.soundSeconds : length.seconds) : null,
  }
}

function hasExpectedTracks({ hasVideo, hasAudio }: MediaLength, { type, anySound }: ReferenceField): boolean {
  return anySound ? hasAudio : hasVideo === (type === 'video')
}

/** Unlike a line break, a space within base64 may have been a plus sign. */
const spaceInLine = /[\w+/] [\w+/=]/

/** Decodes a `data:` URI. Throws 400 for anything but strict base64. */
function fromDataUri(uri: string): Buffer {
  const file = parseDataUri(uri)
  if (!file) throw new GatewayError('invalid_request', 'A data: URI must be `data:<type>;base64,<bytes>`.')
  const bytes = Buffer.from(file.data, 'base64')
  const padded = bytes.toString('base64')
  if (
    (file.data !== padded && file.data !== padded.replace(/=+$/, '')) ||
    spaceInLine.test(uri.slice(base64Start(uri)!))
  )
    throw new GatewayError('invalid_request', 'The data: URI is not valid base64.')
  return bytes
}

/** The error for a file that exceeds `max`, by default the limit of its type. */
export function tooLarge(type: MediaType, max: number = maxBytes[type]): GatewayError {
  return new GatewayError('file_too_large', `${typeNames[type]} must not be larger than ${max / mib} MiB.`, {
    headers: { connection: 'close' },
  })
}

const typeNames: Readonly<Record<MediaType, string>> = {
  image: 'Images',
  audio: 'Audio files',
  video: 'Videos',
  document: 'Documents',
}
const typeNouns: Readonly<Record<MediaType, string>> = {
  image: 'an image',
  audio: 'an audio file',
  video: 'a video',
  document: 'a document (PDF, Word, PowerPoint, OpenDocument, RTF, EPUB) or an image',
}

function wrongType(type: MediaType, found: string | undefined): GatewayError {
  const what = found ? `it is ${found}` : 'its bytes are of no known type'
  return new GatewayError('unsupported_media_type', `The file must be ${typeNouns[type]}; ${what}.`)
}
