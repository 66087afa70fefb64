import { randomBytes } from 'node:crypto'
import type { FormPart } from '../contract.ts'

/** A `multipart/form-data` body (RFC 7578) of known length; its files are read while it is sent. */
type EncodedForm = { contentType: string; bytes: number; body(): AsyncIterable<Uint8Array> }

export function encodeForm(parts: readonly FormPart[]): EncodedForm {
  const boundary = `headgate-${randomBytes(18).toString('hex')}`
  const heads = parts.map(part => headOf(part, boundary))
  const end = Buffer.from(`--${boundary}--\r\n`)
  const bytes = parts.reduce((sum, part, i) => sum + heads[i]!.length + contentBytes(part) + 2, end.length)
  async function* body() {
    for (const [i, part] of parts.entries()) {
      yield heads[i]!
      if ('file' in part) yield* await part.file.open()
      else yield Buffer.from(part.value)
      yield Buffer.from('\r\n')
    }
    yield end
  }
  return { contentType: `multipart/form-data; boundary=${boundary}`, bytes, body }
}

function contentBytes(part: FormPart): number {
  return 'file' in part ? part.file.bytes : Buffer.byteLength(part.value)
}

function headOf(part: FormPart, boundary: string): Buffer {
  const named = `--${boundary}\r\nContent-Disposition: form-data; name="${escaped(part.name)}"`
  if (!('file' in part)) return Buffer.from(`${named}\r\n\r\n`)
  const { filename, contentType } = part.file
  return Buffer.from(`${named}; filename="${escaped(filename)}"\r\nContent-Type: ${contentType}\r\n\r\n`)
}

/** Escapes a name as browsers do (WHATWG HTML, multipart/form-data). */
function escaped(name: string): string {
  return name.replaceAll('\n', '%0A').replaceAll('\r', '%0D').replaceAll('"', '%22')
}
