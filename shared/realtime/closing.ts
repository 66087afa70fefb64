import { GatewayError } from '../base/errors.ts'

/** The close code of an error: 4000 plus the HTTP status for errors of the key or its limits, else an RFC 6455 code. */
export function closeCodeOf({ status }: GatewayError): number {
  if (status === 503) return 1013
  return status >= 500 ? 1011 : 4000 + status
}

/** The session reached its maximum duration. */
export function sessionExpiredError(maxMs: number): GatewayError {
  return new GatewayError('session_expired', `A session may last ${maxMs / 60_000} minutes. Open another one.`)
}

/** The session reached its maximum cost. */
export function spendLimitError(maxNano: number): GatewayError {
  return new GatewayError('session_spend_limit_reached', `A session may cost $${maxNano / 1e9}. Open another one.`)
}

/** The client sent too much before the provider opened the session. */
export function earlyDataError(maxBytes: number): GatewayError {
  const message = `At most ${maxBytes / 1_048_576} MiB may be sent before the session has begun: wait for the event that says so.`
  return new GatewayError('invalid_request', message)
}

/** The client sent more settings at once than may be parsed. */
export function settingsLimitError(maxBytes: number): GatewayError {
  const message = `At most ${maxBytes / 1_048_576} MiB of settings and tools may be sent at once.`
  return new GatewayError('invalid_request', message)
}

/** Too many responses are in progress. */
export function answerLimitError(max: number): GatewayError {
  return new GatewayError(
    'rate_limit_exceeded',
    `At most ${max} answers of a session may be under way. Wait for one to end.`,
  )
}

/** The provider's connection was lost without a close frame. */
export function connectionLostError(): GatewayError {
  return new GatewayError('upstream_error', 'The connection to the provider broke off. Open another session.')
}

/** Announces the shutdown of the process. */
export function restartError(withinMs: number): GatewayError {
  return new GatewayError(
    'service_unavailable',
    `The gateway restarts. This session ends in ${Math.ceil(withinMs / 1_000)} seconds; open another one.`,
  )
}

/** Errors of the key end a session at once; without funds or stores it may use up what is reserved. */
export function endsImmediately({ status }: GatewayError): boolean {
  return status === 401 || status === 403 || status === 429
}
