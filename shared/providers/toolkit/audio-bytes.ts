import type { Readable } from 'node:stream'
import type { ProviderDownload } from '../contract.ts'
import { invalidResponse } from './json-fields.ts'

/** Provider audio. Raw samples cannot be recognised by their bytes, so other content is excluded instead. */

/** The audio of a response. Throws a ProviderError `invalid_response` for text or JSON. */
export function audioOf({ headers, stream }: ProviderDownload): Readable {
  if (!/^(application\/json|text\/)/i.test(String(headers['content-type'] ?? ''))) return stream
  stream.destroy()
  throw invalidResponse('it has no sound')
}

/** Base64 or base64url. */
const base64 = /^[\w+/-]*={0,2}$/

/** Decodes base64 audio. Throws a ProviderError `invalid_response` if it is not base64. */
export function decodeAudio(text: string): Buffer {
  if (!base64.test(text)) throw invalidResponse('its sound is no base64')
  return Buffer.from(text, 'base64')
}
