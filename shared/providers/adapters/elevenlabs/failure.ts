import type { FailureReason, ProviderError } from '../../provider-error.ts'
import { withParam } from '../../toolkit/error-param.ts'
import { type Headers, parseJsonOrNull, readOptionalText, valueAt } from '../../toolkit/json-fields.ts'
import { reasonOfStatus, refusal } from '../../toolkit/refusal.ts'

type Classification = { reason: FailureReason; field?: string }

/**
 * Codes more specific than their status (elevenlabs.io/docs/eleven-api/resources/errors, help article 19572237925521).
 */
const reasonsByCode: ReadonlyMap<string, Classification> = new Map([
  ['quota_exceeded', { reason: 'quota' }],
  ['too_many_concurrent_requests', { reason: 'rate_limited' }],
  ['system_busy', { reason: 'rate_limited' }],
  ['voice_not_found', { reason: 'invalid_request', field: 'voice_id' }],
  // “An invalid ID has been received: '…'.” Only voices have ids in requests.
  ['invalid_uid', { reason: 'invalid_request', field: 'voice_id' }],
  ['model_not_found', { reason: 'model_unavailable' }],
  ['max_character_limit_exceeded', { reason: 'invalid_request', field: 'text' }],
  ['bad_prompt', { reason: 'content_filter', field: 'prompt' }],
])

/**
 * Classifies a response outside 2xx: `{detail: {status, code?, message, param?}}`, or for validation `{detail: [{loc,
 * msg, type}]}`. The error's `param` is ElevenLabs' own field, see `named`.
 */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const json = parseJsonOrNull(body)
  const message =
    ['detail.0.msg', 'detail.message', 'detail'].map(path => readOptionalText(json, path)).find(Boolean) ?? ''
  const code = readOptionalText(json, 'detail.code') ?? ''
  const older = readOptionalText(json, 'detail.status') ?? ''
  const match =
    planCodes.has(code) || planCodes.has(older)
      ? beyondPlan(message)
      : (reasonsByCode.get(code) ?? reasonsByCode.get(older) ?? { reason: reasonOfStatus(status) })
  return withParam(refusal(match.reason, message, status, headers), match.field ?? fieldOf(json))
}

/**
 * Codes of a request that the account's plan does not include, which has credit left, and a key for others: 402 “Free users cannot
 * use library voices via the API.” (dograh-hq/dograh#290), 403 “Professional voices require a Creator tier subscription or
 * above.” and “Output format 'pcm_44100' is only available on the Pro tier and above” (ENTERPILOT/GoModel#787).
 */
const planCodes: ReadonlySet<string> = new Set([
  'paid_plan_required',
  'subscription_required',
  'only_for_creator+',
  'output_format_not_allowed',
])

function beyondPlan(message: string): Classification {
  return /\bvoices?\b/i.test(message)
    ? { reason: 'invalid_request', field: 'voice_id' }
    : { reason: 'model_unavailable' }
}

/** ElevenLabs' own field that a refusal names. */
function fieldOf(json: unknown): string | null {
  const location = valueAt(json, 'detail.0.loc')
  const last = Array.isArray(location) ? location.at(-1) : null
  return typeof last === 'string' ? last : readOptionalText(json, 'detail.param')
}
