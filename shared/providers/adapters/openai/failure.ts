import { systemClock } from '../../../base/time.ts'
import { type FailureReason, ProviderError } from '../../provider-error.ts'
import { reasonsByStatus, redactMessage } from '../../toolkit/refusal.ts'
import { isObject, type Json } from './json.ts'

type Headers = Record<string, string | string[] | undefined>
type Fault = { message: string; codes: string[]; httpCode: number | null; moderated: boolean; param: string | null }

/** Meanings of an error's `code`, `type` or OpenRouter's `error_type`; more specific than the status. */
const byCode = new Map<string, FailureReason>([
  ['insufficient_quota', 'quota'],
  ['credit_balance_exhausted', 'quota'],
  ['billing_hard_limit_reached', 'quota'],
  ['payment_required', 'quota'],
  ['context_length_exceeded', 'context_length'],
  ['token_limit_exceeded', 'context_length'],
  ['content_policy_violation', 'content_filter'],
  ['content_filter', 'content_filter'],
  ['moderation_blocked', 'content_filter'],
  ['refusal', 'content_filter'],
  ['invalid_api_key', 'auth'],
  ['authentication', 'auth'],
  ['authentication_error', 'auth'],
  ['model_not_found', 'model_unavailable'],
  ['model_decommissioned', 'model_unavailable'],
  ['rate_limit_exceeded', 'rate_limited'],
  ['provider_overloaded', 'overloaded'],
  ['overloaded', 'overloaded'],
  ['overloaded_error', 'overloaded'],
])

/** Shown instead of provider messages that concern our account (OpenAI's 401 repeats part of the key). */
const fixedMessages: { [R in FailureReason]?: string } = {
  auth: "The provider refused the gateway's credentials.",
  quota: "The gateway's account at the provider has no credit left.",
}

const tooLong =
  /context (length|window)|prompt is too long|too many (input )?tokens|exceeds? the (maximum|max) .{0,40}tokens/i
const secrets = /\b(?:sk-|gsk_|xai-|org-|proj_)[\w*.-]{6,}|\bBearer \S+/g
const maxMessage = 1000
/** The invalid field of a request, such as `messages[0].content`. */
const fieldName = /^[\w.[\]-]{1,100}$/

/** Classifies a response outside 2xx (tables of OpenAI's and OpenRouter's error codes). */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const fault = readFault(parsed(body))
  return errorFrom(fault, status, retryAfterMs(headers))
}

/** Classifies an error object inside a stream or inside a response with status 200. */
export function reportedFailure(json: Json): ProviderError {
  const fault = readFault(json)
  return errorFrom(fault, fault.httpCode, null)
}

function errorFrom(fault: Fault, status: number | null, delayMs: number | null): ProviderError {
  const reason = reasonOf(fault, status)
  const text = redactMessage(fault.message).replace(secrets, '[redacted]').slice(0, maxMessage)
  const fallback = status ? `The provider answered with status ${status}.` : 'The provider reported an error.'
  return new ProviderError(reason, fixedMessages[reason] ?? (text || fallback), {
    ...(status && { status }),
    ...(delayMs !== null && { retryAfterMs: delayMs }),
    ...(fault.param !== null && { param: fault.param }),
  })
}

function reasonOf(fault: Fault, status: number | null): FailureReason {
  if (fault.moderated) return 'content_filter'
  for (const code of fault.codes) {
    const reason = byCode.get(code)
    if (reason) return reason
  }
  const fromStatus = status === null ? undefined : reasonsByStatus.get(status)
  if (fromStatus) return fromStatus
  if (status === null) return fault.codes.includes('invalid_request_error') ? requestFault(fault) : 'server_error'
  if (status >= 500) return 'server_error'
  return status >= 400 ? requestFault(fault) : 'invalid_response'
}

function requestFault({ message }: Fault): FailureReason {
  return tooLong.test(message) ? 'context_length' : 'invalid_request'
}

/** Parses `{error:{…}}`, `{error:"…"}`, `{message,type,code}` and `{detail:…}`, alone or in an array. */
function readFault(json: unknown): Fault {
  const outer = Array.isArray(json) ? json[0] : json
  const fault: Fault = { message: '', codes: [], httpCode: null, moderated: false, param: null }
  if (!isObject(outer)) return fault
  if (typeof outer.error === 'string') return { ...fault, message: outer.error }
  const error = isObject(outer.error) ? outer.error : outer
  const metadata = isObject(error.metadata) ? error.metadata : {}
  for (const code of [metadata.error_type, error.code, error.type]) {
    if (typeof code === 'string') fault.codes.push(code)
  }
  const httpCode = Number(error.code)
  if (Number.isInteger(httpCode) && httpCode >= 400 && httpCode < 600) fault.httpCode = httpCode
  // OpenRouter reports a prompt flagged by moderation as 403 with the reasons.
  fault.moderated = Array.isArray(metadata.reasons) || metadata.flagged_input !== undefined
  if (typeof error.param === 'string' && fieldName.test(error.param)) fault.param = error.param
  fault.message = typeof error.message === 'string' ? error.message : detailOf(outer.detail)
  return fault
}

/**
 * FastAPI servers (vLLM, Mistral) describe a bad request as `detail`: a string, or a list of locations and messages.
 */
function detailOf(detail: unknown): string {
  const first: unknown = Array.isArray(detail) ? detail[0] : detail
  if (typeof first === 'string') return first
  if (!isObject(first) || typeof first.msg !== 'string') return ''
  return Array.isArray(first.loc) ? `${first.loc.join('.')}: ${first.msg}` : first.msg
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return null
  }
}

const maxRetryMs = 24 * 60 * 60 * 1000
/** Every HTTP date begins with the day of the week; Date.parse accepts many other strings as dates. */
const httpDate = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)/

/**
 * `retry-after-ms`, otherwise `retry-after` in seconds or as an HTTP date (relative to the response's own `date`); null
 * if absent.
 */
function retryAfterMs(headers: Headers): number | null {
  const exact = decimal(headers['retry-after-ms'])
  if (exact !== null) return Math.min(exact, maxRetryMs)
  const inSeconds = decimal(headers['retry-after'])
  if (inSeconds !== null) return Math.min(Math.ceil(inSeconds * 1000), maxRetryMs)
  const date = String(headers['retry-after'] ?? '')
  const until = httpDate.test(date) ? Date.parse(date) : Number.NaN
  if (Number.isNaN(until)) return null
  const sent = Date.parse(String(headers.date ?? ''))
  return Math.min(Math.max(0, until - (Number.isNaN(sent) ? systemClock.now() : sent)), maxRetryMs)
}

function decimal(header: string | string[] | undefined): number | null {
  const text = String(header ?? '').trim()
  return /^\d{1,12}(\.\d+)?$/.test(text) ? Number(text) : null
}
