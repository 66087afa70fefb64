import type { FailureReason, ProviderError } from '../../provider-error.ts'
import { classifyResponse, classifyWorkFailure } from '../../toolkit/classify-by-message.ts'
import { withParam } from '../../toolkit/error-param.ts'
import { type Headers, parseJsonOrNull, readOptionalText } from '../../toolkit/json-fields.ts'
import { refusal } from '../../toolkit/refusal.ts'

type Classification = { reason: FailureReason; field?: string }

const notFound = 404
/** The first start with this idempotency key is still under way. */
const inProgress = 'request_in_progress'

const ofAvatar = { reason: 'invalid_request', field: 'avatar_id' } as const
const ofVoice = { reason: 'invalid_request', field: 'voice_id' } as const
const ofScript = { reason: 'invalid_request', field: 'script' } as const
/** The request is beyond the account's plan or policy, which has credit left and serves others. */
const beyondPlan = { reason: 'model_unavailable' } as const
/** The failure of a download of a file that this gateway serves. */
const ofDownload = { reason: 'server_error' } as const

/**
 * Codes more specific than their status, also of work that failed (developers.heygen.com/docs/error-codes;
 * heygen-cli, internal/errors).
 */
const meanings: ReadonlyMap<string, Classification> = new Map<string, Classification>([
  ['resource_access_denied', { reason: 'invalid_request' }],
  ['avatar_not_found', ofAvatar],
  ['avatar_expired', ofAvatar],
  ['avatar_consent_required', ofAvatar],
  // “This avatar cannot be used because it did not pass content moderation.” It may be the picture of the request.
  ['avatar_not_usable', { reason: 'content_filter' }],
  ['voice_not_found', ofVoice],
  ['voice_not_usable', ofVoice],
  ['voice_unavailable', ofVoice],
  ['voice_expired', ofVoice],
  ['script_too_short', ofScript],
  ['tts_text_invalid', ofScript],
  ['plan_upgrade_required', beyondPlan],
  ['ai_vendor_access_restricted', beyondPlan],
  ['quota_exceeded', { reason: 'quota' }],
  ['download_failed', ofDownload],
  ['gateway_timeout', ofDownload],
])

/** Our request fields by HeyGen's. */
const fields: ReadonlyMap<string, string> = new Map([
  ['avatar_id', 'avatar_id'],
  ['voice_id', 'voice_id'],
  ['script', 'script'],
  ['resolution', 'resolution'],
  ['aspect_ratio', 'aspect_ratio'],
  ['image', 'image_url'],
  ['video', 'video_url'],
  ['audio', 'audio_url'],
  ['audio_url', 'audio_url'],
])

/** `{"error":{"code":"…","message":"…","param":"…"}}`. A 404 refers to an avatar, a voice or a file in the request. */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const json = parseJsonOrNull(body)
  const message = readOptionalText(json, 'error.message') ?? readOptionalText(json, 'message') ?? ''
  const code = readOptionalText(json, 'error.code') ?? ''
  // Without a status this is not taken for a refusal: the job may have been started.
  if (code === inProgress) return refusal('server_error', message, null, headers)
  const meaning = meanings.get(code)
  const reason = meaning?.reason ?? (status === notFound ? 'invalid_request' : null)
  const error = reason ? refusal(reason, message, status, headers) : classifyResponse(status, headers, message, code)
  return withParam(error, meaning?.field ?? fields.get(readOptionalText(json, 'error.param') ?? '') ?? null)
}

/** Why work failed after its start. */
export function workFailure(message: string | null, code: string | null): ProviderError {
  const meaning = meanings.get(code ?? '')
  if (!meaning) return classifyWorkFailure(message, code)
  return withParam(refusal(meaning.reason, message ?? ''), meaning.field ?? null)
}
