import { GatewayError } from '../base/errors.ts'
import { type FailureReason, isRequestFault, type ProviderError, type Target } from '../providers/contract.ts'

/** A call that failed. */
export type Tried = { target: Target; error: ProviderError; durationMs: number }

type Failed = Pick<Tried, 'target' | 'error'>

/** The error a client gets when its providers failed. Names who was tried and why; never a secret or an address. */
export function failureOf(tried: readonly Failed[], last: ProviderError): GatewayError {
  if (last.reason === 'context_length')
    return new GatewayError('context_length_exceeded', last.message, { param: 'messages', cause: last })
  if (isRequestFault(last)) {
    const param = last.param === null ? undefined : { param: last.param }
    return new GatewayError('invalid_request', last.message, { ...param, cause: last })
  }
  const attempts = tried.map(({ target, error }) => ({
    provider: target.provider.name,
    model: target.model.id,
    status: error.status,
    reason: error.reason,
  }))
  const metadata = { attempts }
  const reasons = new Set(tried.map(({ error }) => error.reason))
  reasons.add(last.reason)
  if ([...reasons].every(reason => reason === 'timeout')) {
    return new GatewayError(
      'upstream_timeout',
      'No provider answered in time. Try again, or name more models to fall back to.',
      { metadata, cause: last },
    )
  }
  if ([...reasons].every(reason => reason === 'invalid_response')) {
    return new GatewayError('upstream_invalid_response', 'The provider’s answer could not be understood.', {
      metadata,
      cause: last,
    })
  }
  const waitMs = waitOf(tried)
  const headers = waitMs ? { 'retry-after': String(Math.ceil(waitMs / 1000)) } : undefined
  const message =
    last.reason === 'truncated'
      ? 'The provider’s answer broke off.'
      : 'Every provider that could serve this request failed. Try again shortly.'
  return new GatewayError('upstream_error', message, { metadata, cause: last, ...(headers && { headers }) })
}

/** True when all that providers said was that they have too much to do: that passes. */
export function isBusy({ metadata }: GatewayError): boolean {
  const attempts = (metadata?.attempts ?? []) as { reason: FailureReason }[]
  return attempts.length > 0 && attempts.every(({ reason }) => reason === 'rate_limited' || reason === 'overloaded')
}

/** When the first target is back, if all said when they are. */
function waitOf(tried: readonly Failed[]): number | null {
  const waitsMs = [...new Map(tried.map(({ target, error }) => [target, error.retryAfterMs])).values()]
  return waitsMs.reduce((soonest, ms) => (soonest && ms ? Math.min(soonest, ms) : null), waitsMs[0] ?? null)
}

/** What a client may know of a fault of ours. */
export function internalError(cause: unknown): GatewayError {
  const message = 'Something went wrong on our side. Quote the request id when you report it.'
  return new GatewayError('internal_error', message, { cause })
}
