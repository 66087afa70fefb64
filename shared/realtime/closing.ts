import { GatewayError } from '../base/errors.ts'
import { isOutage, unavailable } from '../io/outage.ts'

/** The close code for an error: 4000 and the HTTP status of a fault of the key or its limits, else what RFC 6455 has. */
export function closeCodeOf({ status }: GatewayError): number {
  if (status === 503) return 1013
  return status >= 500 ? 1011 : 4000 + status
}

/** How a session ends that has lasted as long as it may. */
export function tooLong(mostMs: number): GatewayError {
  return new GatewayError('session_expired', `A session may last ${mostMs / 60_000} minutes. Open another one.`)
}

/** How a session ends that has cost as much as it may. */
export function tooDear(mostNano: number): GatewayError {
  return new GatewayError('session_spend_limit_reached', `A session may cost $${mostNano / 1e9}. Open another one.`)
}

/** How a session ends whose client sends too much before the provider has begun it. */
export function tooEarly(mostBytes: number): GatewayError {
  const message = `At most ${mostBytes / 1_048_576} MiB may be sent before the session has begun: wait for the event that says so.`
  return new GatewayError('invalid_request', message)
}

/** How a session ends whose client sends more settings at once than may be parsed. */
export function tooMuch(mostBytes: number): GatewayError {
  const message = `At most ${mostBytes / 1_048_576} MiB of settings and tools may be sent at once.`
  return new GatewayError('invalid_request', message)
}

/** Why an answer is refused where many are under way. */
export function tooMany(most: number): GatewayError {
  return new GatewayError(
    'rate_limit_exceeded',
    `At most ${most} answers of a session may be under way. Wait for one to end.`,
  )
}

/** How a session ends whose provider is gone without a word. */
export function brokeOff(): GatewayError {
  return new GatewayError('upstream_error', 'The connection to the provider broke off. Open another session.')
}

/** What clients hear before the process ends. */
export function restarting(withinMs: number): GatewayError {
  return new GatewayError(
    'service_unavailable',
    `The gateway restarts. This session ends in ${Math.ceil(withinMs / 1_000)} seconds; open another one.`,
  )
}

/** Why nothing could be reserved, as its client may be told. */
export function refusalOf(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error
  if (isOutage(error)) return unavailable(error)
  return new GatewayError('internal_error', 'Something went wrong on our side.', { cause: error })
}

/** What was reserved may be used up when money ends or a store is away; a key that may no longer go on ends now. */
export function endsAtOnce({ status }: GatewayError): boolean {
  return status === 401 || status === 403 || status === 429
}
