import { GatewayError } from '../base/errors.ts'

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
