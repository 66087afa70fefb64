import { GatewayError } from '../../shared/base/errors.ts'
import type { Blobs, ByteRange } from '../../shared/io/storage/blobs.ts'
import type { Context, Endpoint } from '../endpoint.ts'

/** Pages of any origin may embed files; opened as pages of their own, they are sandboxed. */
const safeHeaders = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': '*',
  'cross-origin-resource-policy': 'cross-origin',
  'content-security-policy': 'sandbox',
  'x-content-type-options': 'nosniff',
  'accept-ranges': 'bytes',
}

/** The responses of a route that sends a stored file. */
export const storedFileAnswers = {
  200: { description: 'The file.', contentType: '*/*', headers: ['accept-ranges'] },
  206: { description: 'The requested range.', contentType: '*/*', headers: ['accept-ranges', 'content-range'] },
  416: {
    description: 'The range is beyond the end of the file.',
    contentType: 'text/plain',
    headers: ['accept-ranges', 'content-range'],
  },
} as const satisfies Endpoint['answers']
export const rangeHeader = { name: 'Range', maxLength: 200, description: 'A single range of bytes.' }

/** Sends a stored file, or the requested range of it, at the client's read rate. Throws 404 once it is deleted. */
export async function sendStoredFile(
  ctx: Context,
  blobs: Blobs,
  { key, bytes, contentType }: { key: string; bytes: number; contentType: string },
): Promise<void> {
  const range = parseRange(ctx.get('range'), bytes)
  ctx.set(safeHeaders)
  if (range === 'unsatisfiable') {
    ctx.status = 416
    ctx.set('content-range', `bytes */${bytes}`)
    ctx.body = ''
    return
  }
  const blob = ctx.method === 'GET' ? await blobs.read(key, range ?? undefined) : null
  if (ctx.method === 'GET' && !blob) throw new GatewayError('not_found', 'The file no longer exists.')
  ctx.status = range ? 206 : 200
  ctx.set('content-type', contentType)
  if (range) ctx.set('content-range', `bytes ${range.start}-${range.end}/${bytes}`)
  if (blob) ctx.body = blob.stream
  ctx.length = range ? range.end - range.start + 1 : bytes
}

/**
 * Parses the single range of a `Range` header (RFC 9110 §14); null = the whole file, also for multiple or malformed
 * ranges.
 */
function parseRange(header: string, bytes: number): ByteRange | 'unsatisfiable' | null {
  const [, from = '', to = ''] = /^bytes=(\d*)-(\d*)$/i.exec(header.trim()) ?? []
  if (from === '' && to === '') return null
  const start = from === '' ? Math.max(0, bytes - Number(to)) : Number(from)
  const end = from === '' || to === '' ? bytes - 1 : Math.min(Number(to), bytes - 1)
  if (from !== '' && to !== '' && Number(to) < start) return null
  return start >= bytes || (from === '' && Number(to) === 0) ? 'unsatisfiable' : { start, end }
}
