import { asText } from '../../../base/as-text.ts'
import { type FailureReason, ProviderError, type ReceivedError } from '../../provider-error.ts'
import { isContextOverflow } from '../../toolkit/context-overflow.ts'
import { readErrorText } from '../../toolkit/error-text.ts'
import { type Headers, parseJsonOrText } from '../../toolkit/json-fields.ts'
import { fixedMessages, isAbsentModel, reasonOfStatus, redactProviderMessage } from '../../toolkit/refusal.ts'
import { retryAfterMs } from '../../toolkit/retry-after.ts'

const byType: Record<string, FailureReason> = {
  invalid_request_error: 'invalid_request',
  authentication_error: 'auth',
  billing_error: 'quota',
  permission_error: 'auth',
  not_found_error: 'model_unavailable',
  conflict_error: 'server_error',
  request_too_large: 'invalid_request',
  rate_limit_error: 'rate_limited',
  api_error: 'server_error',
  timeout_error: 'server_error',
  overloaded_error: 'overloaded',
}

/** The API reports these as generic invalid requests; only the message distinguishes them. */
const byMessage: [RegExp, FailureReason][] = [
  [/^your credit balance|^you have reached your specified .{0,40}usage limit/i, 'quota'],
  // anthropics/claude-code#19028, CherryHQ/cherry-studio#3340
  [/^this organization has been disabled/i, 'auth'],
  [/^output blocked by content filter/i, 'content_filter'],
]

/** Reasons that concern the caller's input: only their messages are passed on. Others may mention our account. */
const shownReasons = new Set<FailureReason>(['invalid_request', 'context_length', 'content_filter'])

const ownWords: Partial<Record<FailureReason, string>> = {
  ...fixedMessages,
  model_unavailable: 'The provider does not serve this model.',
  rate_limited: 'The provider is limiting our request rate.',
  overloaded: 'The provider is overloaded.',
}

const accountData =
  /sk-ant-[\w-]+|\b(?:org|req|wrkspc|acct|apikey)_[a-z\d]{12,}|\b[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\b|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}/gi
const maxMessageLength = 1000

/** Classifies a response outside 2xx. */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const retryAfter = retryAfterMs(headers) ?? undefined
  const json = parseJsonOrText(body)
  const { error } = Object(json) as { error?: unknown }
  const received = error === undefined ? undefined : receivedError(status, headers, body)
  return errorFrom(error ?? json, status, retryAfter, received)
}

/** Headers of an error response that tell a client what to do; none identifies our account. */
const shownHeader = /^(?:x-should-retry|retry-after|anthropic-ratelimit-[a-z-]{1,64})$/
/** What an error body must not reveal: keys, and the ids of our organisation. */
const secrets = /sk-ant-[\w-]+|\b(?:org|wrkspc|acct|apikey)_[a-z\d]{12,}/gi

/** The response for clients of this dialect, who act on its exact wording. */
function receivedError(status: number, headers: Headers, body: string): ReceivedError {
  const shown = Object.entries(headers).filter(([name, value]) => shownHeader.test(name) && typeof value === 'string')
  return {
    status,
    body: body.replace(secrets, '[redacted]'),
    headers: Object.fromEntries(shown) as Record<string, string>,
  }
}

/** The failure of one request of a batch, whose error body has no status. */
export function batchFailure(body: unknown): ProviderError {
  const { error } = Object(body) as { error?: unknown }
  const received = error === undefined ? undefined : receivedError(400, {}, JSON.stringify(body))
  return errorFrom(error, undefined, undefined, received)
}

/** Classifies the error of an error body, or of an `error` event, whose status is unknown. */
export function errorFrom(
  error: unknown,
  status?: number,
  retryAfter?: number,
  received?: ReceivedError,
): ProviderError {
  const { type, details } = Object(error) as Record<string, unknown>
  const text = readErrorText(error).message
  const reason = reasonOf(status, asText(type), text, details)
  return new ProviderError(reason, publicMessage(reason, text), { status, retryAfterMs: retryAfter, received })
}

function reasonOf(status: number | undefined, type: string, message: string, details: unknown): FailureReason {
  // Without a known type it is of a proxy.
  const reason = Object.hasOwn(byType, type) ? byType[type]! : reasonOfStatus(status ?? 500)
  if ((reason === 'invalid_request' || reason === 'auth') && isAbsentModel(message)) return 'model_unavailable'
  if (reason === 'rate_limited') {
    const code = typeof details === 'object' && details !== null && 'error_code' in details ? details.error_code : ''
    return asText(code).startsWith('enforced_spend_limit') ? 'quota' : reason
  }
  if (reason !== 'invalid_request') return reason
  if (isContextOverflow(message)) return 'context_length'
  return byMessage.find(([pattern]) => pattern.test(message))?.[1] ?? reason
}

function publicMessage(reason: FailureReason, message: string): string {
  if (shownReasons.has(reason) && message)
    return redactProviderMessage(message.replace(accountData, '[redacted]')).slice(0, maxMessageLength)
  if (shownReasons.has(reason)) return 'The provider refused the request.'
  return ownWords[reason] ?? 'The provider had an internal error.'
}
