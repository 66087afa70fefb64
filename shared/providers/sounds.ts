import type { Readable } from 'node:stream'
import type { ProviderDownload } from './contract.ts'
import { invalid } from './fields.ts'

/** Sound as providers send it: plain samples have no form by which anything else could be told from them. */

/** The sound that a request is answered with. Throws a ProviderError `invalid_response` for words. */
export function soundOf({ headers, stream }: ProviderDownload): Readable {
  if (!/^(application\/json|text\/)/i.test(String(headers['content-type'] ?? ''))) return stream
  stream.destroy()
  throw invalid('it has no sound')
}

/** Base64, or its form for addresses. */
const base64 = /^[\w+/-]*={0,2}$/

/** The bytes of a piece of sound. Throws a ProviderError `invalid_response` for what is no base64. */
export function bytesIn(text: string): Buffer {
  if (!base64.test(text)) throw invalid('its sound is no base64')
  return Buffer.from(text, 'base64')
}
