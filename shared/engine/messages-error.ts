import type { GatewayError } from '../base/errors.ts'
import { nameInMessages } from '../kinds/messages-members.ts'
import { isRequestFault, ProviderError, type ReceivedError } from '../providers/provider-error.ts'
import { isModelFault } from '../providers/toolkit/model-faults.ts'
import { isBusy, messageInStream } from './failures.ts'

/** Errors in the format of Anthropic's API, for the routes of its dialect. */

type MessagesErrorBody = {
  type: 'error'
  error: { type: string; message: string; code: string; param: string | null; details?: Record<string, unknown> }
  request_id: string
}

const typesByStatus: { [status: number]: string } = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
}

/** The status of an error: 529 where no provider has room, on which clients wait and try again. */
export function messagesErrorStatus(failure: GatewayError): number {
  const isFull = failure.code === 'no_provider_available' || isBusy(failure)
  return isFull && !failure.needsOperator ? 529 : failure.status
}

/** The error body, with our stable `code` beside the type; `metadata` of an error are `details` in this format. */
export function messagesErrorBody(failure: GatewayError, requestId: string): MessagesErrorBody {
  const { message, code, param, metadata, failedGeneration } = failure
  const status = messagesErrorStatus(failure)
  const type = typesByStatus[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error')
  const details = failedGeneration === null ? metadata : { ...metadata, failed_generation: failedGeneration }
  const error = { type, message, code, param: param && nameInMessages(param), ...(details && { details }) }
  return { type: 'error', error, request_id: requestId }
}

/** The error that ends a stream. Anthropic's streams have no `timeout_error`, and what a model wrote wrongly is not the request's fault. */
function errorInMessages(failure: GatewayError, requestId: string) {
  const { error, ...body } = messagesErrorBody(failure, requestId)
  const type = error.type === 'timeout_error' || isModelFault(failure.code) ? 'api_error' : error.type
  return { ...body, error: { ...error, type, message: messageInStream(failure) } }
}

/** A provider's own refusal of the request, for clients of its dialect, who act on the exact wording. */
export function receivedError({ cause }: GatewayError): ReceivedError | null {
  return cause instanceof ProviderError && isRequestFault(cause) ? cause.received : null
}

/** The event that ends a stream that failed. */
export function messagesErrorEvent(failure: GatewayError, requestId: string): string {
  const received = receivedError(failure)?.body
  const isOneLine = received !== undefined && !/[\r\n]/.test(received)
  return `event: error\ndata: ${isOneLine ? received : JSON.stringify(errorInMessages(failure, requestId))}\n\n`
}
