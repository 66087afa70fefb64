import { type ErrorBody, GatewayError } from '../base/errors.ts'
import { formatNames } from '../base/names.ts'
import type { MonotonicMs } from '../base/time.ts'
import { isOutage, storeUnavailable } from '../io/outage.ts'
import type { Target } from '../providers/contract.ts'
import { refusalOf } from '../providers/own-key-health.ts'
import { type FailureReason, isRequestFault, type ProviderError } from '../providers/provider-error.ts'
import { isModelFault } from '../providers/toolkit/model-faults.ts'
import type { Pause } from '../wallet/routing-record.ts'

/** The client disconnected while the provider was working. */
export class ClientGone extends Error {
  override name = 'ClientGone'

  constructor(message = 'the client went away') {
    super(message)
  }
}

/** When a call began, and how long the gateway waited before it; null = not at all. */
export type CallTiming = { startedMs: MonotonicMs; pause: Pause | null }

/** The timing of a call. */
export function timingOf({ startedMs, pause }: CallTiming): CallTiming {
  return { startedMs, pause }
}

/** A failed call. */
export type FailedAttempt = CallTiming & { target: Target; error: ProviderError; durationMs: number }

type FailedCall = Pick<FailedAttempt, 'target' | 'error'>

/**
 * The client-facing error after all providers failed. Lists the attempts and their reasons, never a secret or an
 * address. `isBroken`: the last attempt failed after its answer had started.
 */
export function failureOf(failedAttempts: readonly FailedCall[], last: ProviderError, isBroken = false): GatewayError {
  if (last.modelFault) {
    const { code, generation: failedGeneration } = last.modelFault
    return new GatewayError(code, last.message, { failedGeneration, cause: last })
  }
  if (last.reason === 'context_length')
    return new GatewayError('context_length_exceeded', last.message, { param: 'messages', cause: last })
  if (isRequestFault(last)) {
    const param = last.param === null ? undefined : { param: last.param }
    return new GatewayError('invalid_request', last.message, { ...param, cause: last })
  }
  const attempts = failedAttempts.map(({ target, error }) => ({
    provider: target.provider.name,
    model: target.model.id,
    status: error.status,
    reason: error.reason,
  }))
  const metadata = { attempts }
  const ownRefusal = isBroken ? null : ownRefusalOf(failedAttempts)
  if (ownRefusal && failedAttempts.every(({ target }) => target.own))
    return new GatewayError('own_key_refused', ownRefusal, { metadata, cause: last })
  const reasons = new Set([...failedAttempts.map(({ error }) => error.reason), last.reason])
  const code = codeOf(reasons)
  const waitMs = code === 'upstream_error' ? retryDelayMsOf(failedAttempts) : null
  const headers: Record<string, string> = waitMs ? { 'retry-after': String(Math.ceil(waitMs / 1000)) } : {}
  const hasSeveral = new Set(attempts.map(({ provider }) => provider)).size > 1
  const isRefused = ({ target, error }: FailedCall) => isAccountFault(error.reason) && !target.own
  const refused = isBroken ? [] : failedAttempts.filter(isRefused)
  const needsOperator =
    refused.length > 0 && refused.length === failedAttempts.filter(({ target }) => !target.own).length
  const general = isBroken ? brokenMessage(code, last) : messages[code][hasSeveral ? 'several' : 'one']
  const advised = refused.length === 0 ? general : `${needsOperator ? '' : `${general} `}${operatorAdvice(refused)}`
  const message = ownRefusal ? `${advised} ${ownRefusal}` : advised
  return new GatewayError(code, message, { metadata, cause: last, headers, needsOperator })
}

/** Whether only the API key of a call may be at fault, so that another key may succeed: accounts differ in the models that they have. */
export function isKeyFault(reason: string): boolean {
  return reason === 'rate_limited' || reason === 'auth' || reason === 'quota' || reason === 'model_unavailable'
}

/** A fault of the gateway's own account at a provider, which only its operator can mend. */
export function isAccountFault(reason: FailureReason): boolean {
  return reason === 'auth' || reason === 'quota'
}

/** What to tell an organisation whose own keys were refused; null if none was, or if one failed otherwise. */
function ownRefusalOf(failedAttempts: readonly FailedCall[]): string | null {
  const own = failedAttempts.filter(({ target }) => target.own)
  const refusals = own.flatMap(({ target, error: { reason } }) =>
    reason === 'auth' || reason === 'quota' ? [refusalOf(target, reason)] : [],
  )
  return refusals.length > 0 && refusals.length === own.length ? [...new Set(refusals)].join(' ') : null
}

/**
 * What to tell the operator about the providers that refused the gateway's account. That it has no credit left is not said: it
 * is the operator's affair.
 */
function operatorAdvice(refused: readonly FailedCall[]): string {
  const faults = (['auth', 'quota'] as const).flatMap(reason => {
    const names = new Set(refused.filter(({ error }) => error.reason === reason).map(one => one.target.provider.name))
    const what = reason === 'auth' ? 'API key' : 'account'
    return names.size > 0 ? [`${formatNames([...names])} refused the gateway’s ${what}`] : []
  })
  return `${faults.join(', and ')}. Tell the operator of this service.`
}

/** What the operator can do about a refused key or account. */
export function remedyOf(reason: FailureReason, origin = 'the API key'): string {
  return reason === 'auth'
    ? `correct ${origin} and restart; \`operator doctor\` tests all keys`
    : `add credit or raise the limits of the account of ${origin} at the provider`
}

type FailureCode = 'upstream_timeout' | 'upstream_invalid_response' | 'upstream_error'

function codeOf(reasons: ReadonlySet<FailureReason>): FailureCode {
  if (reasons.size > 1) return 'upstream_error'
  if (reasons.has('timeout')) return 'upstream_timeout'
  return reasons.has('invalid_response') ? 'upstream_invalid_response' : 'upstream_error'
}

/** Error messages by the number of providers that were called. */
const messages: Record<FailureCode, { one: string; several: string }> = {
  upstream_timeout: {
    one: 'The provider did not answer in time. Try again, or name more models to fall back to.',
    several: 'No provider answered in time. Try again, or name more models to fall back to.',
  },
  upstream_invalid_response: {
    one: 'The provider’s answer could not be understood.',
    several: 'No provider’s answer could be understood.',
  },
  upstream_error: {
    one: 'The provider failed. Try again shortly, or name more models to fall back to.',
    several: 'Every provider that was asked failed. Try again shortly.',
  },
}

/** The message for a failure in the middle of an answer. */
function brokenMessage(code: FailureCode, { reason }: ProviderError): string {
  const isBusy = reason === 'overloaded' || reason === 'rate_limited'
  return isBusy ? 'The provider was overloaded in the middle of its answer.' : brokenMessages[code]
}

const brokenMessages: Record<FailureCode, string> = {
  upstream_timeout: 'The provider fell silent in the middle of its answer (premature close).',
  upstream_invalid_response: 'A part of the provider’s answer could not be understood.',
  upstream_error: 'The provider’s answer broke off (premature close).',
}

/**
 * Whether the fault may pass by itself: one of a provider or of ours, of what a model wrote, or a limit, but none that the operator must
 * mend.
 */
function isTransient({ status, code, needsOperator }: GatewayError): boolean {
  return (status >= 500 || status === 429 || isModelFault(code)) && !needsOperator
}

/**
 * The message of an error that ends a stream. There is no status then: coding agents repeat the request if they find
 * known words (docs/decisions/errors-for-agents.md), and stop for good otherwise.
 */
export function messageInStream(failure: GatewayError): string {
  if (!isTransient(failure)) return failure.message
  const cause = failure.code.startsWith('upstream_') ? 'Server error (provider returned error)' : 'Server error'
  return `${failure.message} ${cause}: please retry your request.`
}

/** An error that ends a stream in OpenAI's format. */
export function errorInStream(failure: GatewayError): ErrorBody['error'] {
  const { error } = failure.body
  const type = isTransient(failure) ? 'server_error' : error.type
  return { ...error, message: messageInStream(failure), type }
}

/** Whether a guard gave no answer about an answer, which was paid for. */
export function isUncheckedAnswer({ code, headers }: GatewayError): boolean {
  return code === 'guardrail_unavailable' && headers['x-should-retry'] === 'false'
}

/** True when all failures were rate limits or overloads, which are transient. */
export function isBusy({ metadata }: GatewayError): boolean {
  const attempts = (metadata?.attempts ?? []) as { reason: FailureReason }[]
  return attempts.length > 0 && attempts.every(({ reason }) => reason === 'rate_limited' || reason === 'overloaded')
}

/** Shortest Retry-After in milliseconds; null unless every target's last failure named one. */
function retryDelayMsOf(failedAttempts: readonly FailedCall[]): number | null {
  const waitsMs = [...new Map(failedAttempts.map(({ target, error }) => [target, error.retryAfterMs])).values()]
  return waitsMs.reduce((earliest, ms) => (earliest && ms ? Math.min(earliest, ms) : null), waitsMs[0] ?? null)
}

/** The public form of an error: gateway errors as they are, a store that is away as 503, anything else as an internal error. */
export function publicError(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error
  return isOutage(error) ? storeUnavailable(error) : internalError(error)
}

/** The public form of an internal error. */
export function internalError(cause: unknown): GatewayError {
  const message = 'Something went wrong on our side. Quote the request id when you report it.'
  return new GatewayError('internal_error', message, { cause })
}
