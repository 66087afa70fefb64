import { z } from 'zod'
import { endpoint } from '../endpoint.ts'

const urlLifeMinutes = 30

const upload = z
  .strictObject({
    id: z.string(),
    object: z.literal('upload'),
    url: z.string().describe('The URL to use as a reference. It serves the file without a key until `expires_at`.'),
    content_type: z.string().describe('The detected content type.'),
    bytes: z.int(),
    expires_at: z.iso.datetime(),
  })
  .meta({ id: 'Upload' })

export const createUpload = endpoint({
  method: 'post',
  path: '/v1/uploads',
  operationId: 'createUpload',
  tag: 'Uploads',
  summary: 'Create an upload',
  description: `Uploads an image of at most 10 MiB, an audio file of at most 20 MiB or a video of at most 50 MiB; the type is detected from its bytes. The URL expires after ${urlLifeMinutes} minutes. Not durable storage.`,
  access: { scope: '*' },
  free: true,
  form: {
    files: [{ name: 'file', required: true, description: 'The file.' }],
    instead: 'Uploads in parts, as OpenAI has them, are not offered: send the whole file to POST /v1/files.',
    example: { file: 'portrait.png' },
  },
  answers: { 201: { description: 'The upload.', schema: upload } },
  async handle({ services: { blobs, clock }, uploads }) {
    const { fileId, storageKey, contentType, bytes } = uploads[0]!.file
    const expiresAtMs = clock.now() + urlLifeMinutes * 60_000
    return {
      id: fileId,
      object: 'upload',
      url: await blobs.signedUrl({ key: storageKey, contentType }, expiresAtMs),
      content_type: contentType,
      bytes,
      expires_at: new Date(expiresAtMs).toISOString(),
    }
  },
})
