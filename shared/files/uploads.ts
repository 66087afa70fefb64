import { GatewayError } from '../base/errors.ts'
import { type Bytes, closeBody, limitBytes } from '../io/bytes.ts'
import { peekHead, sniff } from '../io/media/media-type.ts'
import type { FileServices } from './file-services.ts'
import { type FileOwner, retainedForJobsMs, type StoredFile } from './files.ts'
import { maxBytes, tooLarge } from './references.ts'

/** An upload in progress, with the client's declared name and type. */
type IncomingUpload = { filename: string; contentType: string; body: Bytes }

/**
 * Stores an uploaded image, audio or video file while it is received. Its type is detected from its bytes. Throws a
 * GatewayError: 400 when it is empty, 403 `quota_exceeded`, 413 at the first byte over `max` or the limit of its type,
 * 415 for another type or for bytes that contradict the declared type.
 */
export async function storeUpload(
  { files, clock }: FileServices,
  { organisationId, environment }: FileOwner,
  incoming: IncomingUpload,
  max?: number,
): Promise<StoredFile> {
  const { head, body } = await peekHead(incoming.body)
  try {
    if (head.length === 0) throw new GatewayError('invalid_request', 'The file is empty.')
    const format = await sniff(head)
    if (!format?.type || format.type === 'document') {
      const types = 'The file must be an image, an audio file or a video; its bytes are of no such type.'
      throw new GatewayError('unsupported_media_type', types)
    }
    const { type, contentType } = format
    if (!matchesType(incoming.contentType, type))
      throw new GatewayError(
        'unsupported_media_type',
        `The file is sent as ${incoming.contentType}, but it is ${contentType}.`,
      )
    return await files.store(
      limitBytes(body, max ?? maxBytes[type], () => tooLarge(type, max)),
      {
        organisationId,
        environment,
        purpose: 'upload',
        filename: incoming.filename || `upload.${format.extension}`,
        contentType,
        expiresAtMs: clock.now() + retainedForJobsMs,
      },
    )
  } finally {
    await closeBody(body)
  }
}

/**
 * Types that say what else a file is. All others say nothing about its bytes: clients send what a form has by default (RFC
 * 7578 §4.4), a wildcard, the type of the form itself, or what a server names that does not know better.
 */
const otherType =
  /^(?:text\/(?!plain$)|(?:font|model|message)\/|application\/(?:(?:json|jsonl|pdf|xml|zip|gzip|javascript|rtf|msword|x-www-form-urlencoded)$|vnd\.(?:ms-|openxmlformats|oasis)|.+\+(?:json|xml|zip)$))/
const mediaFamily = /^(image|audio|video)\/./

/** Whether a declared content type agrees with the bytes. Audio and video share their containers. */
function matchesType(declared: string, type: 'image' | 'audio' | 'video'): boolean {
  const mimeType = declared.toLowerCase()
  const [, family] = mediaFamily.exec(mimeType) ?? []
  return family ? (family === 'image') === (type === 'image') : !otherType.test(mimeType)
}
