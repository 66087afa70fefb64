import { GatewayError } from '../base/errors.ts'
import { atMost, type Bytes, close, peek } from '../io/bytes.ts'
import { sniff, sniffedBytes } from '../io/media-type.ts'
import { type FileOwner, keptForJobsMs, type StoredFile } from '../jobs/files.ts'
import type { Services } from '../services.ts'
import { mostBytes, tooLarge } from './references.ts'

/** A file on its way in, with what the client says of it. */
export type Incoming = { filename: string; contentType: string; body: Bytes }

/**
 * Stores an uploaded image, audio or video file as it comes in. Its type is what its bytes show. Throws a GatewayError: 400
 * when it is empty, 403 `quota_exceeded`, 413 at the first byte over `most` or the limit of its type, 415 for another type or for bytes that are not what the
 * client says.
 */
export async function storeUpload(
  { files, clock }: Services,
  { organisationId, environment }: FileOwner,
  incoming: Incoming,
  most?: number,
): Promise<StoredFile> {
  const { head, body } = await peek(incoming.body, sniffedBytes)
  try {
    if (head.length === 0) throw new GatewayError('invalid_request', 'The file is empty.')
    const format = await sniff(head)
    if (!format?.type) {
      const types = 'The file must be an image, an audio file or a video; its bytes are of no such type.'
      throw new GatewayError('unsupported_media_type', types)
    }
    const { type, contentType } = format
    if (!mayBe(incoming.contentType, type))
      throw new GatewayError(
        'unsupported_media_type',
        `The file is sent as ${incoming.contentType}, but it is ${contentType}.`,
      )
    return await files.store(
      atMost(body, most ?? mostBytes[type], () => tooLarge(type, most)),
      {
        organisationId,
        environment,
        purpose: 'upload',
        filename: incoming.filename || `upload.${format.extension}`,
        contentType,
        expiresAtMs: clock.now() + keptForJobsMs,
      },
    )
  } finally {
    await close(body)
  }
}

/** What a part without a content type counts as (RFC 7578 §4.4), and what clients send when they know nothing. */
const unstated = /^$|^text\/plain$|^(?:application|binary)\/octet-stream$/i

/** Whether a stated content type agrees with the bytes. Sound and video share their containers. */
function mayBe(stated: string, type: 'image' | 'audio' | 'video'): boolean {
  const [family = ''] = stated.toLowerCase().split('/')
  if (unstated.test(stated)) return true
  return type === 'image'
    ? family === 'image'
    : family === 'audio' || family === 'video' || /^application\/ogg$/i.test(stated)
}
