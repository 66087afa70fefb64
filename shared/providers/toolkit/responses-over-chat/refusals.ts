import { GatewayError } from '../../../base/errors.ts'

/** A 400 for a malformed request; `param` is the path of the field. */
export function invalid(param: string, message: string): GatewayError {
  return new GatewayError('invalid_request', message, { param })
}

/** A 400 for what the gateway cannot translate, or this target cannot take. */
export function unsupported(param: string, message: string): GatewayError {
  return new GatewayError('unsupported_capability', message, { param })
}
