import { GatewayError } from '../../shared/base/errors.ts'
import type { Blobs } from '../../shared/io/blobs.ts'
import type { Context, Endpoint } from '../endpoint.ts'
import { rangeOf } from './range.ts'

/** Files may be shown by pages of any origin; as pages of their own they can do nothing. */
const safeHeaders = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': '*',
  'cross-origin-resource-policy': 'cross-origin',
  'content-security-policy': 'sandbox',
  'x-content-type-options': 'nosniff',
  'accept-ranges': 'bytes',
}

/** The answers of a route that sends a stored file. */
export const storedAnswers = {
  200: { description: 'The file.', contentType: '*/*', headers: ['accept-ranges'] },
  206: { description: 'The part that was asked for.', contentType: '*/*', headers: ['accept-ranges', 'content-range'] },
  416: {
    description: 'The file is shorter than that.',
    contentType: 'text/plain',
    headers: ['accept-ranges', 'content-range'],
  },
} as const satisfies Endpoint['answers']
export const rangeHeader = { name: 'Range', maxLength: 200, description: 'One range of bytes.' }

/** Sends a file of the storage, or the range of it that is asked for, as fast as the client reads. Throws 404 once it is gone. */
export async function sendStored(
  ctx: Context,
  blobs: Blobs,
  { key, bytes, contentType }: { key: string; bytes: number; contentType: string },
): Promise<void> {
  const range = rangeOf(ctx.get('range'), bytes)
  ctx.set(safeHeaders)
  if (range === 'unsatisfiable') {
    ctx.status = 416
    ctx.set('content-range', `bytes */${bytes}`)
    ctx.body = ''
    return
  }
  const blob = ctx.method === 'GET' ? await blobs.read(key, range ?? undefined) : null
  if (ctx.method === 'GET' && !blob) throw new GatewayError('not_found', 'There is no such file any more.')
  ctx.status = range ? 206 : 200
  ctx.set('content-type', contentType)
  if (range) ctx.set('content-range', `bytes ${range.start}-${range.end}/${bytes}`)
  if (blob) ctx.body = blob.stream
  ctx.length = range ? range.end - range.start + 1 : bytes
}
