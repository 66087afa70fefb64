import { GatewayError } from '../base/errors.ts'
import { type FailureReason, isRequestFault, type ProviderError, type Target } from '../providers/contract.ts'

/** A call that failed. */
export type Tried = { target: Target; error: ProviderError; durationMs: number }

type Failed = Pick<Tried, 'target' | 'error'>

/**
 * The error a client gets when its providers failed. Names who was tried and why; never a secret or an address. `isBroken`: the
 * last one failed after its answer had begun.
 */
export function failureOf(tried: readonly Failed[], last: ProviderError, isBroken = false): GatewayError {
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
  const code = codeOf(new Set([...tried.map(({ error }) => error.reason), last.reason]))
  const waitMs = code === 'upstream_error' ? waitOf(tried) : null
  const headers = waitMs ? { 'retry-after': String(Math.ceil(waitMs / 1000)) } : undefined
  const areSeveral = new Set(attempts.map(({ provider }) => provider)).size > 1
  const message = isBroken ? brokenMessages[code] : messages[code][areSeveral ? 'several' : 'one']
  return new GatewayError(code, message, { metadata, cause: last, ...(headers && { headers }) })
}

type FailureCode = 'upstream_timeout' | 'upstream_invalid_response' | 'upstream_error'

function codeOf(reasons: ReadonlySet<FailureReason>): FailureCode {
  if (reasons.size > 1) return 'upstream_error'
  if (reasons.has('timeout')) return 'upstream_timeout'
  return reasons.has('invalid_response') ? 'upstream_invalid_response' : 'upstream_error'
}

/** What a client is told when nobody answered, by how many providers were asked. */
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

/** What a client is told in the middle of an answer. */
const brokenMessages: Record<FailureCode, string> = {
  upstream_timeout: 'The provider fell silent in the middle of its answer.',
  upstream_invalid_response: 'A part of the provider’s answer could not be understood.',
  upstream_error: 'The provider’s answer broke off.',
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
