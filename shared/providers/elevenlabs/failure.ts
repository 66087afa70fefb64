import type { FailureReason, ProviderError } from '../contract.ts'
import { at, type Headers, optionalText, parsed, reasonOfStatus, refusal } from '../fields.ts'
import { withParam } from '../param.ts'

type Verdict = { reason: FailureReason; field?: string }

/** Codes that say more than their status (elevenlabs.io/docs/eleven-api/resources/errors, help article 19572237925521). */
const verdicts: ReadonlyMap<string, Verdict> = new Map([
  ['quota_exceeded', { reason: 'quota' }],
  ['too_many_concurrent_requests', { reason: 'rate_limited' }],
  ['system_busy', { reason: 'rate_limited' }],
  ['voice_not_found', { reason: 'invalid_request', field: 'voice_id' }],
  ['max_character_limit_exceeded', { reason: 'invalid_request', field: 'text' }],
  ['bad_prompt', { reason: 'content_filter', field: 'prompt' }],
])

/**
 * Classifies an answer that is not 2xx: `{detail: {status, code?, message, param?}}`, or of validation
 * `{detail: [{loc, msg, type}]}`. `param` of the error is ElevenLabs' own field, see `named`.
 */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const json = parsed(body)
  const verdict = verdicts.get(optionalText(json, 'detail.code') ?? '') ??
    verdicts.get(optionalText(json, 'detail.status') ?? '') ?? { reason: reasonOfStatus(status) }
  const message = ['detail.0.msg', 'detail.message', 'detail'].map(path => optionalText(json, path)).find(Boolean)
  return withParam(refusal(verdict.reason, message ?? '', status, headers), verdict.field ?? fieldOf(json))
}

/** The field of ElevenLabs' own that a refusal names. */
function fieldOf(json: unknown): string | null {
  const place = at(json, 'detail.0.loc')
  const last = Array.isArray(place) ? place.at(-1) : null
  return typeof last === 'string' ? last : optionalText(json, 'detail.param')
}
