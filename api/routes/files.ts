import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { inline } from '../../shared/io/disposition.ts'
import type { Services } from '../../shared/services.ts'
import { endpoint } from '../endpoint.ts'
import { rangeHeader, sendStored, storedAnswers } from '../middleware/stored.ts'

const signed = z.strictObject({
  type: z.string().max(200).describe('The content type.'),
  name: z.string().max(300).describe('The name to save it under.'),
  expires: z.string().max(20).describe('When the address ends, in Unix seconds.'),
  signature: z.string().max(100).describe('Proves that the gateway made the address.'),
})

export const readStoredFile = endpoint({
  method: 'get',
  path: '/files/{key}',
  deep: true,
  operationId: 'getStoredFile',
  tag: 'Uploads',
  summary: 'Retrieve a stored file',
  description:
    'The address that uploads and results come with where files lie on the gateway’s own disk. It needs no key.',
  access: 'public',
  query: signed,
  headers: [rangeHeader],
  answers: storedAnswers,
  errors: ['not_found'],
  async handle({ services, query, ctx }) {
    const { key, bytes } = await opened(services, ctx.url)
    ctx.set({
      'cache-control': `private, max-age=${Math.max(0, Number(query.expires) - Math.floor(services.clock.now() / 1000))}`,
      ...(query.name && { 'content-disposition': inline(query.name) }),
    })
    await sendStored(ctx, services.blobs, { key, bytes, contentType: query.type })
  },
})

/** The file behind an address of ours. Throws 404 for an address that expired or was changed: it says nothing of the file. */
async function opened({ blobs, config }: Services, path: string): Promise<{ key: string; bytes: number }> {
  const missing = new GatewayError('not_found', 'There is no such file, or its address has expired or was changed.')
  const key = await blobs.keyOf(config.publicUrl + path).catch(error => {
    throw error instanceof GatewayError ? missing : error
  })
  const first = key === null ? null : await blobs.read(key, { start: 0, end: 0 })
  if (!first) throw missing
  first.stream.destroy()
  return { key: key!, bytes: first.bytes }
}
