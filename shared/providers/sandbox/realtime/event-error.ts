import { GatewayError } from '../../../base/errors.ts'

/** The reason and provider code for refusing a client event. The session continues. */
export class EventError extends Error {
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

/** Our validation errors in the provider's format. Others are failures of the sandbox, which `errorEvent` tells apart. */
export function toRefusal(error: unknown): Error {
  if (error instanceof GatewayError) return new EventError(codes[error.code] ?? error.code, error.message, error.param)
  return error instanceof EventError ? error : new Error('An event could not be read.', { cause: error })
}

/** The error event for the client; an internal error of the sandbox must not end the process. */
export function errorEvent(error: unknown): object {
  if (!(error instanceof EventError))
    return { type: 'server_error', code: 'server_error', message: 'The sandbox failed at this event.', param: null }
  const { code, message, param } = error
  return { type: 'invalid_request_error', code, message, param }
}
