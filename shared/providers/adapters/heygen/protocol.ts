import type { Protocol } from '../../contract.ts'
import type { ProviderError } from '../../provider-error.ts'
import { classifyResponse } from '../../toolkit/classify-by-message.ts'
import { type Headers, parseJsonOrNull, readOptionalText } from '../../toolkit/json-fields.ts'
import { refusal } from '../../toolkit/refusal.ts'
import { callbackJobId, verify } from './callback.ts'
import { catalog } from './catalog.ts'
import { avatar, lipsync } from './videos.ts'

/**
 * HeyGen's API v3 (developers.heygen.com; schemas in github.com/heygen-com/heygen-cli). An avatar row's upstream model
 * is the engine (`avatar_iv`, `avatar_iii`); it is omitted with a custom picture, which has no choice of engine. A
 * lip-sync deployment's trait `mode` is `speed` or `precision`.
 */
export const heygen: Protocol = {
  direct: {},
  queued: { avatar, lipsync },
  verify,
  callbackJobId,
  catalog,
  credentialCheck: () => ({ path: '/v2/user/remaining_quota' }),
  failure,
}

const notFound = 404

/** `{"error":{"code":"…","message":"…"}}`. A 404 refers to an avatar, a voice or a file in the request. */
function failure(status: number, headers: Headers, body: string): ProviderError {
  const json = parseJsonOrNull(body)
  const message = readOptionalText(json, 'error.message') ?? readOptionalText(json, 'message') ?? ''
  if (status === notFound) return refusal('invalid_request', message, status, headers)
  return classifyResponse(status, headers, message, readOptionalText(json, 'error.code') ?? '')
}
