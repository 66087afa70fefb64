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
  const match =
    code === 'paid_plan_required'
      ? beyondPlan(message)
      : (reasonsByCode.get(code) ??
        reasonsByCode.get(readOptionalText(json, 'detail.status') ?? '') ?? { reason: reasonOfStatus(status) })
  return withParam(refusal(match.reason, message, status, headers), match.field ?? fieldOf(json))
}

/**
 * A 402 of a request that the account's plan does not include: “Free users cannot use library voices via the API.”
 * (dograh-hq/dograh#290). The account still has credit for others.
 */
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
