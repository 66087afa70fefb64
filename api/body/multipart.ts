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
/**
 * The boundary of a form, also of characters that HTTP wants to be quoted: HttpURLConnection's users write `===1656457491496===`
 * (mscdex/busboy#306), React Native has slashes (mscdex/busboy#139), others spaces (mscdex/busboy#321).
 */
const boundaryParameter = /;\s*boundary\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;"]+))/i
/** A field as part of a body. */
const oneString = { parts: 1, values: 1 }
/** Parts are as large as the connection's reads, so a high-water mark of one part is sufficient. */
const bufferBytes = 16 * 1024

/** A file as it arrives. Each chunk is valid until the next one is requested. `filename`: '' without one. */
export type FilePart = { name: string; filename: string; contentType: string; body: Bytes }
export type Fields = Record<string, string | string[]>

/** The content of a form. `digest` is the same for the same fields and files, however the body was encoded. */
type Multipart<T> = { fields: Fields; files: { name: string; file: T }[]; digest: Buffer }

type MultipartRules<T> = {
  /** The file fields, with the maximum number of files of each name. */
  files: Readonly<Record<string, number>>
  /** Text fields that may be repeated. Their names, and those of multiple files, may end with `[]`, or `[0]`, `[1]` … */
  lists: readonly string[]
  /** Text fields that must not be repeated; undefined = all that are not in `lists`. What no one reads may come twice. */
  single?: ReadonlySet<string> | undefined
  /** Maximum length of a text field; default 256 KiB. */
  maxFieldBytes?: number | undefined
  /** Maximum number of text fields; default 64. */
  maxFields?: number | undefined
  /** Stores a file as it arrives; must read it to its end or throw. Null for none. */
  take(part: FilePart): Promise<T | null>
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
  const fields = new FormFields(rules)
  let stop = () => {}
  let unwatch = () => {}
  const arriving: ArrivingFile<T>[] = []
  try {
    await new Promise<void>((resolve, reject) => {
      // What an event throws would end the process.
      const addField = (sent: string | undefined, value: string | undefined, isTruncated: boolean) => {
        try {
          fields.add(named(sent), value, isTruncated)
        } catch (error) {
          reject(error)
        }
      }
      const takeFile = (sent: string, stream: Readable, { filename = '', mimeType }: busboy.FileInfo) => {
        const name = fileField(sent, rules.files, arriving)
        const hash = createHash('sha256')
        const file = rules.take({ name, filename, contentType: mimeType, body: hashChunks(stream, hash) })
        file.catch(reject)
        arriving.push({ name, described: [name, filename, mimeType], hash, file })
      }
      parser.on('file', (sent: string | undefined, stream, info) => {
        stream.on('error', () => {}) // The parser reports it as well.
        try {
          if (fields.isText(named(sent), info))
            readText(stream, maxFieldBytes, (text, isTruncated) => addField(sent, text, isTruncated))
          else takeFile(named(sent), stream, info)
        } catch (error) {
          reject(error)
        }
      })
      parser.on('field', (sent: string | undefined, value: string | undefined, { valueTruncated, nameTruncated }) =>
        addField(sent, value, valueTruncated || nameTruncated),
      )
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
    const taken = await Promise.all(arriving.map(async ({ name, file }) => ({ name, file: await file })))
    const files = taken.flatMap(({ name, file }) => (file === null ? [] : [{ name, file }]))
    return { fields: fields.all, files, digest: digestOf(fields.all, arriving) }
  } catch (error) {
    stop()
    parser.destroy()
    discardBody(request)
    const results = await Promise.allSettled(arriving.map(({ file }) => file))
    const stored = results.map(result => (result.status === 'fulfilled' ? result.value : null))
    await rules.undo(stored.filter(file => file !== null)).catch(() => {})
    throw error
  } finally {
    unwatch()
  }
}

/** A file of a form, whose content may still be arriving; null for an empty field of a web page. */
type ArrivingFile<T> = { name: string; described: string[]; hash: Hash; file: Promise<T | null> }

/** The field that a file of this name belongs to. Throws 400 for an unknown field, and for more files than it takes. */
function fileField(
  sent: string,
  maxima: Readonly<Record<string, number>>,
  arriving: readonly ArrivingFile<unknown>[],
): string {
  const name = listName(sent)
  const max = Object.hasOwn(maxima, name) ? maxima[name]! : 0
  if (max === 0) throw unknownFieldError(sent.slice(0, maxNameBytes), meantField(name, Object.keys(maxima)))
  if (arriving.filter(other => other.name === name).length >= max) throw tooManyFilesError(name, max)
  return name
}

/** A digest of the fields in any order, and of the files. Files may arrive concurrently: each has its own digest. */
function digestOf(fields: Fields, files: readonly ArrivingFile<unknown>[]): Buffer {
  const sorted = Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1))
  const described = files.map(({ described, hash }) => [...described, hash.digest('hex')])
  return createHash('sha256')
    .update(JSON.stringify([described, sorted]))
    .digest()
}

type FieldRules = Pick<MultipartRules<unknown>, 'files' | 'lists' | 'single' | 'held'>

/** The text fields of a form. */
class FormFields {
  readonly all: Fields = {}
  readonly #rules: FieldRules

  constructor(rules: FieldRules) {
    this.#rules = rules
  }

  /**
   * Whether a part that was sent as a file is a text field. The form-data package of npm sends a buffer without a stated type as
   * application/octet-stream; the requests package of PyPI gives a text beside files the name of its field as its file name
   * (`guess_filename`).
   */
  isText(sent: string, { filename = sent }: busboy.FileInfo): boolean {
    const { files, lists, single } = this.#rules
    if (filename !== sent || Object.hasOwn(files, listName(sent))) return false
    return lists.includes(listName(sent)) || single?.has(sent) === true
  }

  /**
   * Throws a GatewayError for a field that is too long, repeated, or in an unknown charset (undefined), and what the budget
   * throws.
   */
  add(sent: string, value: string | undefined, isTruncated: boolean): void {
    const { files, lists, single, held } = this.#rules
    if (value === undefined) throw malformedError(`\`${sent}\` has an unknown charset.`, sent)
    const isList = lists.includes(listName(sent))
    const name = isList ? listName(sent) : sent
    const earlier = Object.hasOwn(this.all, name) ? this.all[name]! : null
    held.take(value.length)
    held.grow(parsedBytes(value.length, oneString))
    if (isTruncated)
      throw Object.hasOwn(files, name) ? textError(name) : malformedError(`\`${name}\` is too long.`, name)
    if (earlier !== null && !isList && single?.has(name) !== false)
      throw malformedError(`The form has \`${name}\` twice.`, name)
    const all = isList || earlier !== null ? [...[earlier ?? []].flat(), value] : value
    Object.defineProperty(this.all, name, { value: all, enumerable: true, configurable: true })
  }
}

/** The name of a part. Throws 400 without one. */
function named(sent: string | undefined): string {
  if (sent === undefined) throw malformedError('A part of the form has no `name`.')
  return sent
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

/** The name of a list field without its optional suffix: `image[]`, or `image[0]` (symfony/mime, FormDataPart). */
function listName(name: string): string {
  return name.replace(/\[\d*\]$/, '')
}

/** Reads a text that was sent as a file. */
function readText(stream: Readable, maxBytes: number, done: (text: string, isTruncated: boolean) => void): void {
  const parts: Buffer[] = []
  let bytes = 0
  stream.on('data', (part: Buffer) => {
    if (bytes > maxBytes) return
    bytes += part.length
    if (bytes > maxBytes) done('', true)
    else parts.push(Buffer.from(part))
  })
  stream.on('end', () => {
    if (bytes <= maxBytes) done(Buffer.concat(parts).toString(), false)
  })
}

type Limits = { maxFiles: number; maxFields: number; maxFieldBytes: number }

function openParser(
  request: IncomingMessage,
  { maxFiles, maxFields, maxFieldBytes }: Limits,
  instead = '',
): busboy.Busboy {
  if (!isForm(request)) {
    discardBody(request)
    const message = `Send the body as \`Content-Type: multipart/form-data\`.${instead && ` ${instead}`}`
    throw new GatewayError('unsupported_media_type', message)
  }
  try {
    return busboy({
      headers: { 'content-type': typeOf(request) },
      highWaterMark: bufferBytes,
      // The next part is read on request, not while the previous one is being stored.
      fileHwm: 0,
      defParamCharset: 'utf8',
      limits: {
        // A text may be sent as a file.
        files: maxFields + maxFiles,
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

/** The content type of a form as the parser takes it: its boundary alone, in quotes. */
function typeOf({ headers }: IncomingMessage): string {
  const [, quoted, plain = ''] = boundaryParameter.exec(headers['content-type'] ?? '') ?? []
  const boundary = quoted ?? plain.trim().replaceAll('\\', '\\\\')
  return boundary === '' ? 'multipart/form-data' : `multipart/form-data; boundary="${boundary}"`
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
  return malformedError(max === 1 ? 'Send one file.' : `Send at most ${max} files.`, param)
}

/** The error for a file without a name, which makes it a text: a usual mistake (vllm-project/guidellm#983). */
export function textError(name: string): GatewayError {
  const message = `\`${name}\` was sent as text: give the part of the file a \`filename\`.`
  return new GatewayError('missing_field', message, { param: name })
}

function malformedError(message: string, param?: string, cause?: unknown): GatewayError {
  return new GatewayError('invalid_request', message, { ...(param && { param }), cause })
}
