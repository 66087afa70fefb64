import type { Protocol, ProviderError } from '../contract.ts'
import { type Headers, optionalText, parsed, refusal } from '../fields.ts'
import { refusalInWords } from '../words.ts'
import { callbackJobId, verify } from './callback.ts'
import { catalog } from './catalog.ts'
import { avatar, lipsync } from './videos.ts'

/**
 * HeyGen's API v3 (developers.heygen.com; schemas in github.com/heygen-com/heygen-cli). An avatar row's upstream model is
 * the engine (`avatar_iv`, `avatar_iii`), which is not sent with an own picture: that has none to choose. A lip-sync
 * deployment's trait `mode` is `speed` or `precision`.
 */
export const heygen: Protocol = { direct: {}, queued: { avatar, lipsync }, verify, callbackJobId, catalog, failure }

const notFound = 404

/** `{"error":{"code":"…","message":"…"}}`. What is not found is an avatar, a voice or a file that the request names. */
function failure(status: number, headers: Headers, body: string): ProviderError {
  const json = parsed(body)
  const message = optionalText(json, 'error.message') ?? optionalText(json, 'message') ?? ''
  if (status === notFound) return refusal('invalid_request', message, status, headers)
  return refusalInWords(status, headers, message, optionalText(json, 'error.code') ?? '')
}
