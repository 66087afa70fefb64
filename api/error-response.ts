import type { GatewayError } from '../shared/base/errors.ts'
import { messagesErrorBody, messagesErrorStatus, receivedError } from '../shared/engine/messages-error.ts'
import { responsesErrorBody, responsesErrorStatus } from '../shared/engine/responses-error.ts'

type ErrorResponse = { status: number; headers: Record<string, string>; body: string }

/** Whether the responses of a path have the format of Anthropic's API. */
export function isMessagesPath(path: string): boolean {
  return path === '/v1/messages' || path.startsWith('/v1/messages/')
}

/** Whether the responses of a path have the format of OpenAI's Responses API. */
export function isResponsesPath(path: string): boolean {
  return path === '/v1/responses' || path.startsWith('/v1/responses/')
}

/**
 * The response for an error, in the format of its path. A provider's own refusal of a Messages request is passed on
 * with its status and its bytes: clients act on its exact wording.
 */
export function errorResponse(failure: GatewayError, path: string, requestId: string): ErrorResponse {
  if (isResponsesPath(path)) {
    const status = responsesErrorStatus(failure)
    const headers = headersOf(failure, status)
    if (failure.status === 402) headers['x-should-retry'] = 'false'
    return { status, headers, body: JSON.stringify(responsesErrorBody(failure)) }
  }
  if (!isMessagesPath(path)) {
    const { status, body } = failure
    return { status, headers: headersOf(failure, status), body: JSON.stringify(body) }
  }
  const received = receivedError(failure)
  if (received) return { ...received, headers: { ...failure.headers, ...received.headers } }
  const status = messagesErrorStatus(failure)
  const headers = headersOf(failure, status)
  if (status === 402) headers['x-should-retry'] = 'false'
  return { status, headers, body: JSON.stringify(messagesErrorBody(failure, requestId)) }
}

function headersOf({ headers, code }: GatewayError, status: number): Record<string, string> {
  if (status === 401) return { ...headers, 'www-authenticate': 'Bearer' }
  if (status === 409) return { ...headers, 'x-should-retry': String(code === 'idempotency_in_progress') }
  return { ...headers }
}
