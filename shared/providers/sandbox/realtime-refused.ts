import { GatewayError } from '../../base/errors.ts'

/** Why an event of the client is refused, with the provider's code for it. The session goes on. */
export class Refused extends Error {
  override name = 'Refused'
  readonly code: string
  readonly param: string | null
  constructor(code: string, message: string, param: string | null = null) {
    super(message)
    this.code = code
    this.param = param
  }
}

const codes: Record<string, string> = {
  unknown_field: 'unknown_parameter',
  missing_field: 'missing_required_parameter',
  invalid_request: 'invalid_value',
}

/** What our own validation refuses, as the provider says it. Throws anything else. */
export function refusalOf(error: unknown): Refused {
  if (error instanceof Refused) return error
  if (!(error instanceof GatewayError)) throw error
  return new Refused(codes[error.code] ?? error.code, error.message, error.param)
}

/** What the client is told; a fault of the sandbox's own must not end the process that it runs in. */
export function errorOf(error: unknown): object {
  if (!(error instanceof Refused))
    return { type: 'server_error', code: 'server_error', message: 'The sandbox failed at this event.', param: null }
  const { code, message, param } = error
  return { type: 'invalid_request_error', code, message, param }
}
