import { createHash, type Hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import busboy from 'busboy'
import { GatewayError } from '../../shared/base/errors.ts'
import type { HeldBytes } from '../../shared/io/byte-budget.ts'
import { type Bytes, free } from '../../shared/io/bytes.ts'
import { discard, watchSender } from './sender.ts'

const mostFields = 64
const mostFieldBytes = 256 * 1024
const mostNameBytes = 200
/** Parts are as large as the connection gives them: a stage that holds one has enough. */
const bufferBytes = 16 * 1024

/** A file as it comes in. Each part of its body is valid until the next one is asked for. */
export type FilePart = { name: string; filename: string; contentType: string; body: Bytes }
export type Fields = Record<string, string | string[]>

/** What a form held. `digest` is the same for the same fields and files, however the body was written. */
export type Multipart<T> = { fields: Fields; files: { name: string; file: T }[]; digest: Buffer }

export type MultipartRules<T> = {
  /** The file fields: how many files of each name are taken. */
  files: Readonly<Record<string, number>>
  /** Text fields that may be there several times. Their names, and those of several files, may end with `[]`. */
  lists: readonly string[]
  /** The longest text field; 256 KiB where it is not given. */
  maxFieldBytes?: number | undefined
  /** How many text fields; 64 where it is not given. */
  maxFields?: number | undefined
  /** Takes a file in as it comes; must read it to its end or fail. */
  take(part: FilePart): Promise<T>
  /** What the text fields hold of the budget of bodies; files are not held. */
  held: HeldBytes
  /** Lets go of what was taken when the form turns out to be broken after it. */
  undo(taken: T[]): Promise<void>
}

/**
 * Reads a `multipart/form-data` request of text fields and files, which are handed on as they arrive, one after the other.
 * Throws 415 for another content type, 400 for a broken form, too many files or a field that is there twice, 408 for a sender
 * that is too slow, 429 and 503 for a full budget, and what `take` throws.
 */
export async function readMultipart<T>(request: IncomingMessage, rules: MultipartRules<T>): Promise<Multipart<T>> {
  const mostFiles = Object.values(rules.files).reduce((sum, most) => sum + most, 0)
  const { maxFields = mostFields, maxFieldBytes = mostFieldBytes } = rules
  const parser = openParser(request, { mostFiles, maxFields, maxFieldBytes })
  const fields: Fields = {}
  let unwatch = () => {}
  const taking: { name: string; shown: string[]; hash: Hash; file: Promise<T> }[] = []
  try {
    await new Promise<void>((resolve, reject) => {
      const tooMany = (param: string, most: number) =>
        reject(
          new GatewayError('invalid_request', most === 1 ? 'Send one file.' : `Send at most ${most} files.`, { param }),
        )
      parser.on('file', (sent, stream, { filename = '', mimeType }) => {
        stream.on('error', () => {}) // The parser has it too.
        const name = listName(sent)
        const most = Object.hasOwn(rules.files, name) ? rules.files[name]! : 0
        if (most === 0) return reject(unknown(sent))
        if (taking.filter(other => other.name === name).length >= most) return tooMany(name, most)
        const hash = createHash('sha256')
        const body = hashed(stream, hash)
        const file = rules.take({ name, filename, contentType: mimeType, body })
        file.catch(reject)
        taking.push({ name, shown: [name, filename, mimeType], hash, file })
      })
      parser.on('field', (sent, value, { valueTruncated, nameTruncated }) => {
        const name = rules.lists.includes(listName(sent)) ? listName(sent) : sent
        const isList = rules.lists.includes(name)
        try {
          rules.held.take(value.length)
        } catch (error) {
          return reject(error)
        }
        if (valueTruncated || nameTruncated) reject(broken(`\`${name}\` is too long.`, name))
        else if (!isList && Object.hasOwn(fields, name)) reject(broken(`The form has \`${name}\` twice.`, name))
        else {
          const all = isList ? [...(fields[name] ?? []), value] : value
          Object.defineProperty(fields, name, { value: all, enumerable: true, configurable: true })
        }
      })
      parser.on('filesLimit', () => tooMany(Object.keys(rules.files)[0]!, mostFiles))
      for (const limit of ['fieldsLimit', 'partsLimit'] as const)
        parser.on(limit, () => reject(broken(`The form has more than ${maxFields} fields.`)))
      parser.on('error', cause => reject(broken('The form is broken or was cut off.', undefined, cause)))
      parser.on('close', resolve)
      request.on('close', () => {
        if (!request.complete) reject(broken('The request was cut off.'))
      })
      request.pipe(parser)
      unwatch = watchSender(request, reject)
    })
    const files = await Promise.all(taking.map(async ({ name, file }) => ({ name, file: await file })))
    const sorted = Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1))
    // Files may come in at the same time: each has a digest of its own.
    const shown = taking.map(({ shown, hash }) => [...shown, hash.digest('hex')])
    const digest = createHash('sha256')
      .update(JSON.stringify([shown, sorted]))
      .digest()
    return { fields, files, digest }
  } catch (error) {
    request.unpipe(parser)
    parser.destroy()
    discard(request)
    const taken = await Promise.allSettled(taking.map(({ file }) => file))
    await rules.undo(taken.flatMap(result => (result.status === 'fulfilled' ? [result.value] : []))).catch(() => {})
    throw error
  } finally {
    unwatch()
  }
}

/** The name of a list as some clients write it: `image[]`. */
function listName(name: string): string {
  return name.endsWith('[]') ? name.slice(0, -2) : name
}

type Limits = { mostFiles: number; maxFields: number; maxFieldBytes: number }

function openParser(request: IncomingMessage, { mostFiles, maxFields, maxFieldBytes }: Limits): busboy.Busboy {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = request.headers
  if (!isMultipart(request) || encoding !== 'identity') {
    discard(request)
    throw new GatewayError('unsupported_media_type', 'Send the body as `Content-Type: multipart/form-data`.')
  }
  try {
    return busboy({
      headers: { 'content-type': type },
      highWaterMark: bufferBytes,
      // The next part is read when it is asked for, not while the last one is being written.
      fileHwm: 0,
      defParamCharset: 'utf8',
      limits: {
        files: mostFiles,
        fields: maxFields,
        parts: maxFields + mostFiles,
        fieldSize: maxFieldBytes,
        fieldNameSize: mostNameBytes,
        headerPairs: 32,
      },
    })
  } catch (cause) {
    discard(request)
    throw broken('The Content-Type names no boundary.', undefined, cause)
  }
}

/** Whether a request says that its body is a multipart form. */
export function isMultipart(request: IncomingMessage): boolean {
  return /^multipart\/form-data\b/i.test(request.headers['content-type'] ?? '')
}

/** The parts of a file, each of which is freed when the next one is asked for. */
async function* hashed(stream: Readable, hash: Hash): Bytes {
  for await (const part of stream) {
    hash.update(part)
    yield part
    free(part)
  }
}

/** The error for a field that the form does not have. */
export function unknown(name: string): GatewayError {
  const param = name.slice(0, mostNameBytes)
  return new GatewayError('unknown_field', `Unknown field \`${param}\`.`, { param })
}

function broken(message: string, param?: string, cause?: unknown): GatewayError {
  return new GatewayError('invalid_request', message, { ...(param && { param }), cause })
}
