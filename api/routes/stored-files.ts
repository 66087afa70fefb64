import { z } from 'zod'
import { GatewayError } from '../../shared/base/errors.ts'
import { inlineDisposition } from '../../shared/io/disposition.ts'
import type { Platform } from '../../shared/platform.ts'
import { endpoint } from '../endpoint.ts'
import { rangeHeader, sendStoredFile, storedFileAnswers } from './send-stored-file.ts'

const signed = z.strictObject({
  type: z.string().max(200).describe('The content type.'),
  name: z.string().max(300).describe('The file name for downloads.'),
  expires: z.string().max(20).describe('The Unix timestamp (in seconds) at which the URL expires.'),
  signature: z.string().max(100).describe('The signature of the URL.'),
})

export const readStoredFile = endpoint({
  method: 'get',
  path: '/files/{key}',
  deep: true,
  operationId: 'getStoredFile',
  tag: 'Uploads',
  summary: 'Retrieve a stored file',
  description: 'Serves the URLs of uploads and results if files are stored on the gateway’s own disk. Requires no key.',
  access: 'public',
  query: signed,
  headers: [rangeHeader],
  answers: storedFileAnswers,
  errors: ['not_found'],
  async handle({ services, query, ctx }) {
    const { key, bytes } = await verifyFileUrl(services, ctx.url)
    ctx.set({
      'cache-control': `private, max-age=${Math.max(0, Number(query.expires) - Math.floor(services.clock.now() / 1000))}`,
      ...(query.name && { 'content-disposition': inlineDisposition(query.name) }),
    })
    await sendStoredFile(ctx, services.blobs, { key, bytes, contentType: query.type })
  },
})

/** Verifies a file URL of ours. Throws 404 if it expired or was altered, without revealing whether the file exists. */
async function verifyFileUrl({ blobs, config }: Platform, path: string): Promise<{ key: string; bytes: number }> {
  const missing = new GatewayError('not_found', 'The file does not exist, or its URL has expired or was altered.')
  const key = await blobs.keyOf(config.publicUrl + path).catch(error => {
    throw error instanceof GatewayError ? missing : error
  })
  const first = key === null ? null : await blobs.read(key, { start: 0, end: 0 })
  if (!first) throw missing
  first.stream.destroy()
  return { key: key!, bytes: first.bytes }
}
