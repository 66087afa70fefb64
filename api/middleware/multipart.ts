import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import busboy from 'busboy'
import { GatewayError } from '../../shared/base/errors.ts'
import { discard } from './body.ts'

const mostFields = 64
const mostFieldBytes = 256 * 1024
const mostNameBytes = 200
/** Parts are as large as the connection gives them; a stage holds one of them, not several. */
const bufferBytes = 16 * 1024

export type FilePart = { filename: string; contentType: string; body: AsyncIterable<Uint8Array> }

/** What a form held. `digest` is the same for the same fields and file, however the body was written. */
export type Multipart<T> = { fields: Record<string, string>; file: T | null; digest: Buffer }

export type MultipartRules<T> = {
  /** The name of the one file field. */
  file: string
  /** Takes the file in as it comes; must read it to its end or fail. */
  take(part: FilePart): Promise<T>
  /** Lets go of what was taken when the form turns out to be broken after its file. */
  undo(taken: T): Promise<void>
}

/**
 * Reads a `multipart/form-data` request of text fields and at most one file, which is handed on as it arrives. Throws 415 for
 * another content type, 400 for a broken form, a second file or a field that is there twice, and what `take` throws.
 */
export async function readMultipart<T>(request: IncomingMessage, rules: MultipartRules<T>): Promise<Multipart<T>> {
  const parser = openParser(request)
  const fields: Record<string, string> = {}
  const hash = createHash('sha256')
  let taking: Promise<T> | null = null
  let shown = ''
  try {
    await new Promise<void>((resolve, reject) => {
      parser.on('file', (name, stream, { filename = '', mimeType }) => {
        stream.on('error', () => {}) // The parser has it too.
        if (name !== rules.file) return reject(unknown(name))
        if (taking) return reject(new GatewayError('invalid_request', 'Send one file.', { param: name }))
        shown = JSON.stringify([filename, mimeType])
        taking = rules.take({ filename, contentType: mimeType, body: hashed(stream, part => hash.update(part)) })
        taking.catch(reject)
      })
      parser.on('field', (name, value, { valueTruncated, nameTruncated }) => {
        if (valueTruncated || nameTruncated) reject(broken(`\`${name.slice(0, mostNameBytes)}\` is too long.`))
        else if (Object.hasOwn(fields, name)) reject(broken(`The form has \`${name}\` twice.`, name))
        else Object.defineProperty(fields, name, { value, enumerable: true })
      })
      parser.on('filesLimit', () =>
        reject(new GatewayError('invalid_request', 'Send one file.', { param: rules.file })),
      )
      for (const limit of ['fieldsLimit', 'partsLimit'] as const)
        parser.on(limit, () => reject(broken(`The form has more than ${mostFields} fields.`)))
      parser.on('error', cause => reject(broken('The form is broken or was cut off.', undefined, cause)))
      parser.on('close', resolve)
      request.on('close', () => {
        if (!request.complete) reject(broken('The request was cut off.'))
      })
      request.pipe(parser)
    })
    const file = await taking
    hash.update(JSON.stringify([shown, Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1))]))
    return { fields, file, digest: hash.digest() }
  } catch (error) {
    request.unpipe(parser)
    parser.destroy()
    discard(request)
    await (taking as Promise<T> | null)?.then(rules.undo).catch(() => {})
    throw error
  }
}

function openParser(request: IncomingMessage): busboy.Busboy {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = request.headers
  if (!isMultipart(request) || encoding !== 'identity') {
    discard(request)
    throw new GatewayError('unsupported_media_type', 'Send the body as `Content-Type: multipart/form-data`.')
  }
  try {
    return busboy({
      headers: { 'content-type': type },
      highWaterMark: bufferBytes,
      fileHwm: bufferBytes,
      defParamCharset: 'utf8',
      limits: {
        files: 1,
        fields: mostFields,
        parts: mostFields + 1,
        fieldSize: mostFieldBytes,
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

async function* hashed(stream: Readable, update: (part: Uint8Array) => void): AsyncIterable<Uint8Array> {
  for await (const part of stream) {
    update(part)
    yield part
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
