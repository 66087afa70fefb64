import { createHash, type Hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import busboy from 'busboy'
import { GatewayError } from '../../shared/base/errors.ts'
import { parsedBytes } from '../../shared/base/json.ts'
import { meantField, unknownFieldError } from '../../shared/base/validate.ts'
import { type HeldBytes, PieceCounter, pipeJoined } from '../../shared/io/byte-budget.ts'
import { type Bytes, freeBytes } from '../../shared/io/bytes.ts'
import { HttpRequest } from '../http-server.ts'
import { decodeBody } from './decode-body.ts'
import { discardBody, isCompressed, isForm, tinyPiecesError, watchSender } from './read-body.ts'

const defaultMaxFields = 64
const defaultMaxFieldBytes = 256 * 1024
const maxNameBytes = 200
/** Each file has a lower limit of its own. */
const maxDecodedFormBytes = 1024 ** 3
/** A field as part of a body. */
const oneString = { parts: 1, values: 1 }
/** Parts are as large as the connection's reads, so a high-water mark of one part is sufficient. */
const bufferBytes = 16 * 1024

/** A file as it arrives. Each chunk is valid until the next one is requested. */
export type FilePart = { name: string; filename: string; contentType: string; body: Bytes }
export type Fields = Record<string, string | string[]>

/** The content of a form. `digest` is the same for the same fields and files, however the body was encoded. */
export type Multipart<T> = { fields: Fields; files: { name: string; file: T }[]; digest: Buffer }

export type MultipartRules<T> = {
  /** The file fields, with the maximum number of files of each name. */
  files: Readonly<Record<string, number>>
  /** Text fields that may be repeated. Their names, and those of multiple files, may end with `[]`. */
  lists: readonly string[]
  /** Text fields that must not be repeated; undefined = all that are not in `lists`. What no one reads may come twice. */
  single?: ReadonlySet<string> | undefined
  /** Maximum length of a text field; default 256 KiB. */
  maxFieldBytes?: number | undefined
  /** Maximum number of text fields; default 64. */
  maxFields?: number | undefined
  /** Stores a file as it arrives; must read it to its end or throw. */
  take(part: FilePart): Promise<T>
  /** The body budget of the text fields; files are not counted. */
  held: HeldBytes
  /** What a caller without a form is told beside that. */
  instead?: string | undefined
  /** Discards the result of `take` if the rest of the form is invalid. */
  undo(results: T[]): Promise<void>
}

/**
 * Reads a `multipart/form-data` request of text fields and files, which are passed on as they arrive, one after
 * another. Throws 415 for another content type, 400 for a malformed form, tiny pieces, too many files or a repeated field, 408
 * for a slow sender, 429 and 503 for an exhausted budget, and what `take` throws.
 */
export async function readMultipart<T>(request: IncomingMessage, rules: MultipartRules<T>): Promise<Multipart<T>> {
  const maxFiles = Object.values(rules.files).reduce((sum, max) => sum + max, 0)
  const { maxFields = defaultMaxFields, maxFieldBytes = defaultMaxFieldBytes } = rules
  const parser = openParser(request, { maxFiles, maxFields, maxFieldBytes }, rules.instead)
  const fields: Fields = {}
  let stop = () => {}
  let unwatch = () => {}
  const arriving: ArrivingFile<T>[] = []
  try {
    await new Promise<void>((resolve, reject) => {
      parser.on('file', (sent, stream, { filename = '', mimeType }) => {
        stream.on('error', () => {}) // The parser reports it as well.
        try {
          const name = fileField(sent, rules.files, arriving)
          const hash = createHash('sha256')
          const file = rules.take({ name, filename, contentType: mimeType, body: hashChunks(stream, hash) })
          file.catch(reject)
          arriving.push({ name, described: [name, filename, mimeType], hash, file })
        } catch (error) {
          reject(error)
        }
      })
      parser.on('field', (sent, value, { valueTruncated, nameTruncated }) => {
        try {
          addField(fields, sent, value, valueTruncated || nameTruncated, rules)
        } catch (error) {
          reject(error)
        }
      })
      parser.on('filesLimit', () => reject(tooManyFilesError(Object.keys(rules.files)[0]!, maxFiles)))
      for (const limit of ['fieldsLimit', 'partsLimit'] as const)
        parser.on(limit, () => reject(malformedError(`The form has more than ${maxFields} fields.`)))
      parser.on('error', cause => reject(malformedError('The form is malformed or was cut off.', undefined, cause)))
      parser.on('close', resolve)
      request.on('close', () => {
        if (!request.complete) reject(malformedError('The request body was cut off.'))
      })
      stop = pipeBody(request, parser, rules.held, reject)
      unwatch = watchSender(request, reject, undefined, rules.held)
    })
    const files = await Promise.all(arriving.map(async ({ name, file }) => ({ name, file: await file })))
    return { fields, files, digest: digestOf(fields, arriving) }
  } catch (error) {
    stop()
    parser.destroy()
    discardBody(request)
    const results = await Promise.allSettled(arriving.map(({ file }) => file))
    await rules.undo(results.flatMap(result => (result.status === 'fulfilled' ? [result.value] : []))).catch(() => {})
    throw error
  } finally {
    unwatch()
  }
}

type ArrivingFile<T> = { name: string; described: string[]; hash: Hash; file: Promise<T> }

/** The field that a file of this name belongs to. Throws 400 for an unknown field, and for more files than it takes. */
function fileField(
  sent: string,
  maxima: Readonly<Record<string, number>>,
  arriving: readonly ArrivingFile<unknown>[],
): string {
  const name = listName(sent)
  const max = Object.hasOwn(maxima, name) ? maxima[name]! : 0
  if (max === 0) throw unknownFieldError(sent.slice(0, maxNameBytes), meantField(sent, Object.keys(maxima)))
  if (arriving.filter(other => other.name === name).length >= max) throw tooManyFilesError(name, max)
  return name
}

/** Adds a text field. Throws 400 for one that is too long or not a list and repeated, 429 and 503 for an exhausted budget. */
function addField(
  fields: Fields,
  sent: string,
  value: string,
  isTruncated: boolean,
  { lists, single, held }: MultipartRules<unknown>,
): void {
  held.take(value.length)
  held.grow(parsedBytes(value.length, oneString))
  const isList = lists.includes(listName(sent))
  const name = isList ? listName(sent) : sent
  if (isTruncated) throw malformedError(`\`${name}\` is too long.`, name)
  const earlier = Object.hasOwn(fields, name) ? fields[name]! : null
  if (earlier !== null && !isList && single?.has(name) !== false)
    throw malformedError(`The form has \`${name}\` twice.`, name)
  const all = isList || earlier !== null ? [...[earlier ?? []].flat(), value] : value
  // A field may be named `__proto__`.
  Object.defineProperty(fields, name, { value: all, enumerable: true, configurable: true })
}

/** A digest of the fields in any order, and of the files. Files may arrive concurrently: each has its own digest. */
function digestOf(fields: Fields, files: readonly ArrivingFile<unknown>[]): Buffer {
  const sorted = Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1))
  const described = files.map(({ described, hash }) => [...described, hash.digest('hex')])
  return createHash('sha256')
    .update(JSON.stringify([described, sorted]))
    .digest()
}

/** Pipes the body of a form, decoded, to its parser. Returns a function to stop. */
function pipeBody(
  request: IncomingMessage,
  parser: busboy.Busboy,
  held: HeldBytes,
  refuse: (error: GatewayError) => void,
): () => void {
  const pipe = (source: Readable, counter: PieceCounter) =>
    pipeJoined(source, parser, counter, () => refuse(tinyPiecesError()))
  if (!isCompressed(request)) return pipe(request, HttpRequest.countPieces(request))
  const tooLargeError = () => new GatewayError('request_too_large', 'The form is larger than 1 GiB.')
  const body = decodeBody(request, { maxBytes: maxDecodedFormBytes, held, refuse, tooLargeError, tinyPiecesError })
  // What a decoder makes of the pieces is not the sender's choice.
  const unpipe = pipe(body.source, new PieceCounter({ maxTiny: Number.POSITIVE_INFINITY }))
  return () => {
    unpipe()
    body.stop()
  }
}

/** The name of a list field without its optional suffix: `image[]`. */
function listName(name: string): string {
  return name.endsWith('[]') ? name.slice(0, -2) : name
}

type Limits = { maxFiles: number; maxFields: number; maxFieldBytes: number }

function openParser(
  request: IncomingMessage,
  { maxFiles, maxFields, maxFieldBytes }: Limits,
  instead = '',
): busboy.Busboy {
  const { 'content-type': type = '' } = request.headers
  if (!isForm(request)) {
    discardBody(request)
    const message = `Send the body as \`Content-Type: multipart/form-data\`.${instead && ` ${instead}`}`
    throw new GatewayError('unsupported_media_type', message)
  }
  try {
    return busboy({
      headers: { 'content-type': type },
      highWaterMark: bufferBytes,
      // The next part is read on request, not while the previous one is being stored.
      fileHwm: 0,
      defParamCharset: 'utf8',
      limits: {
        files: maxFiles,
        fields: maxFields,
        parts: maxFields + maxFiles,
        fieldSize: maxFieldBytes,
        fieldNameSize: maxNameBytes,
        headerPairs: 32,
      },
    })
  } catch (cause) {
    discardBody(request)
    throw malformedError('The Content-Type has no boundary.', undefined, cause)
  }
}

/** The chunks of a file, each freed when the next one is requested. */
async function* hashChunks(stream: Readable, hash: Hash): Bytes {
  for await (const part of stream) {
    hash.update(part)
    yield part
    freeBytes(part)
  }
}

function tooManyFilesError(param: string, max: number): GatewayError {
  const message = max === 1 ? 'Send one file.' : `Send at most ${max} files.`
  return new GatewayError('invalid_request', message, { param })
}

function malformedError(message: string, param?: string, cause?: unknown): GatewayError {
  return new GatewayError('invalid_request', message, { ...(param && { param }), cause })
}
