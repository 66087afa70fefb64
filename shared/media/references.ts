import { GatewayError } from '../base/errors.ts'
import { atMost, bytesOf, close, peek } from '../io/bytes.ts'
import type { MediaLength } from '../io/media-file.ts'
import { measureMedia } from '../io/media-processes.ts'
import { type MediaFormat, sniff, sniffedBytes } from '../io/media-type.ts'
import { openPublic } from '../io/safe-url.ts'
import { type FileOwner, keptForJobsMs, type StoredFile } from '../jobs/files.ts'
import type { MediaType, Reference, ReferenceField, References } from '../kinds/media.ts'
import type { Services } from '../services.ts'
import { rangesOf } from './ranges.ts'

const mib = 1024 * 1024
/** The largest file of a type that is taken, in bytes, however it comes. */
export const mostBytes: Readonly<Record<MediaType, number>> = { image: 10 * mib, audio: 20 * mib, video: 50 * mib }
const fetchMs = 30_000
const measureMs = 10_000
const atOnce = 4

type Staged = { field: string; reference: Reference; stored: StoredFile | null }

/**
 * Brings every file that a request refers to into storage: an upload of the same organisation stays where it is, a `data:`
 * URI and a public URL are copied. Throws a GatewayError naming the field (400 `url_not_allowed`, 400 `invalid_request`, 413,
 * 415); then nothing that was copied stays.
 */
export async function stageReferences(
  services: Services,
  owner: FileOwner,
  fields: readonly ReferenceField[],
): Promise<References> {
  const waiting = [...fields]
  const staged: Staged[] = []
  let failed = false
  const lane = async () => {
    for (let field = waiting.shift(); field && !failed; field = waiting.shift())
      staged.push(await stage(services, owner, field))
  }
  const lanes = await Promise.allSettled(
    Array.from({ length: Math.min(atOnce, fields.length) }, () =>
      lane().catch(error => {
        failed = true
        throw error
      }),
    ),
  )
  const fault = lanes.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined
  if (fault) {
    await discard(services, staged)
    throw fault.reason
  }
  return Object.fromEntries(staged.map(({ field, reference }) => [field, reference]))
}

async function discard({ files, log }: Services, staged: readonly Staged[]): Promise<void> {
  const stored = staged.flatMap(({ stored }) => stored ?? [])
  await files.remove(stored).catch(error => log.warn({ err: error }, 'references stay until they expire'))
}

async function stage(services: Services, owner: FileOwner, field: ReferenceField): Promise<Staged> {
  try {
    const key = field.url.startsWith('data:') ? null : await services.blobs.keyOf(field.url)
    const stored = key === null ? await copy(services, owner, field) : null
    try {
      const file = stored ?? (await owned(services, owner.organisationId, field, key!))
      return { field: field.field, reference: await examined(services, owner.organisationId, field, file), stored }
    } catch (error) {
      if (stored) await services.files.remove([stored])
      throw error
    }
  } catch (error) {
    if (!(error instanceof GatewayError) || error.param !== null) throw error
    throw new GatewayError(error.code, error.message, { param: field.field, cause: error.cause })
  }
}

const copies = /^references\/.*\/([^/]+)\.\w+$/

/** Removes what was copied for a request that came to nothing; uploads stay. */
export async function dropReferences({ files, log }: Services, references: References): Promise<void> {
  const copied = Object.values(references).flatMap(({ storageKey }) => {
    const [, fileId] = copies.exec(storageKey) ?? []
    return fileId ? [{ fileId, storageKey }] : []
  })
  await files.remove(copied).catch(error => log.warn({ err: error }, 'references stay until they expire'))
}

type Held = { storageKey: string; contentType: string; bytes: number; filename: string }

/** A file of our own, which must be the same organisation's. */
async function owned({ files }: Services, organisationId: string, field: ReferenceField, key: string): Promise<Held> {
  const row = await files.hold(organisationId, key)
  if (!row) throw new GatewayError('url_not_allowed', 'There is no such file any more. Upload it again.')
  const { storageKey, contentType, filename } = row
  const bytes = Number(row.bytes)
  const most = field.mostBytes ?? mostBytes[field.type]
  if (bytes > most) throw tooLarge(field.type, most)
  return { storageKey, contentType, bytes, filename }
}

async function copy(services: Services, { organisationId, environment }: FileOwner, reference: ReferenceField) {
  const { field, url, type, mostBytes: most = mostBytes[type] } = reference
  const source = url.startsWith('data:')
    ? bytesOf(fromDataUri(url))
    : (await openPublic(url, { ...services.door, maxBytes: most, timeoutMs: fetchMs, param: field })).stream
  const { head, body } = await peek(source, sniffedBytes)
  try {
    if (head.length === 0) throw new GatewayError('invalid_request', 'The file is empty.')
    const format = await sniff(head)
    if (!format || !fits(format, type)) throw wrongType(type, format?.contentType)
    const filename = nameIn(url) ?? `${field}.${format.extension}`
    const stored = await services.files.store(
      atMost(body, most, () => tooLarge(type, most)),
      {
        organisationId,
        environment,
        purpose: 'reference',
        filename,
        contentType: format.contentType,
        expiresAtMs: services.clock.now() + keptForJobsMs,
      },
    )
    return { ...stored, filename }
  } finally {
    await close(body)
  }
}

const longestName = 100

/** The name of a file that an address ends with. */
function nameIn(url: string): string | null {
  if (url.startsWith('data:')) return null
  const name = new URL(url).pathname.split('/').at(-1)!.slice(-longestName)
  return /^[\w-][\w.-]*\.\w{2,4}$/.test(name) ? name : null
}

/** The containers of video may as well hold sound alone. */
function fits(format: MediaFormat, type: MediaType): boolean {
  return format.type === type || (type === 'audio' && format.type === 'video')
}

/** What the field needs to know of the file: that it is what it should be, and how long it takes to play. */
async function examined(
  services: Services,
  organisationId: string,
  { type, measured }: ReferenceField,
  file: Held,
): Promise<Reference> {
  const { storageKey, contentType, bytes, filename } = file
  const family = contentType.split('/')[0]
  if (family !== type && !(type === 'audio' && family === 'video')) throw wrongType(type, contentType)
  const contains = type !== 'image' && (measured || family !== type)
  const ranges = rangesOf(services.blobs, storageKey, bytes)
  const length = contains ? await measureMedia(ranges, measureMs, organisationId) : null
  if (contains && !length)
    throw new GatewayError('invalid_request', `The file cannot be read as ${type}, or it has no length.`)
  if (length && !plays(length, type)) throw wrongType(type, contentType)
  return {
    storageKey,
    contentType: type === 'audio' ? contentType.replace(/^video\/(mp4|webm|ogg)$/, 'audio/$1') : contentType,
    bytes,
    filename,
    durationS: measured && length ? length.seconds : null,
  }
}

function plays({ hasVideo }: MediaLength, type: MediaType): boolean {
  return hasVideo === (type === 'video')
}

const dataUri = /^data:([\w.+-]+\/[\w.+-]+)?(?:;[\w.+-]+=[^;,]*)*;base64,/i

/** The bytes of a `data:` URI. Throws 400 for anything but strict base64. */
function fromDataUri(url: string): Buffer {
  const prefix = dataUri.exec(url.slice(0, 1_000))?.[0]
  if (!prefix) throw new GatewayError('invalid_request', 'A data: URI must be `data:<type>;base64,<bytes>`.')
  const text = url.slice(prefix.length)
  const bytes = Buffer.from(text, 'base64')
  const padded = bytes.toString('base64')
  if (text !== padded && text !== padded.replace(/=+$/, ''))
    throw new GatewayError('invalid_request', 'The data: URI is not valid base64.')
  return bytes
}

/** The error for a file over the limit of its type, or one of its own. */
export function tooLarge(type: MediaType, most: number = mostBytes[type]): GatewayError {
  return new GatewayError('file_too_large', `${named[type]} must not be larger than ${most / mib} MiB.`, {
    headers: { connection: 'close' },
  })
}

const named: Readonly<Record<MediaType, string>> = { image: 'Images', audio: 'Audio files', video: 'Videos' }
const aFile: Readonly<Record<MediaType, string>> = { image: 'an image', audio: 'an audio file', video: 'a video' }

function wrongType(type: MediaType, found: string | undefined): GatewayError {
  const what = found ? `it is ${found}` : 'its bytes are of no known type'
  return new GatewayError('unsupported_media_type', `The file must be ${aFile[type]}; ${what}.`)
}
