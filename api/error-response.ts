import { GatewayError } from '../shared/base/errors.ts'
import { googleErrorBody } from '../shared/engine/google-error.ts'
import { messagesErrorBody, messagesErrorStatus, receivedError } from '../shared/engine/messages-error.ts'
import { responsesErrorBody, responsesErrorStatus } from '../shared/engine/responses-error.ts'
import { isGooglePath } from './google-dialect.ts'
import { isMessagesPath, isResponsesPath } from './http-response.ts'

/** The format of an error body, where its path does not tell: `text` is the message as `error`, `flat` as `message`, `detail` as both. */
export type ErrorDialect = 'usual' | 'messages' | 'google' | 'text' | 'flat' | 'detail'

/** An error for a client of another API, whose format it has: otherwise that client would not show the message. */
export class DialectError extends GatewayError {
  readonly dialect: ErrorDialect

  constructor(dialect: ErrorDialect, ...error: ConstructorParameters<typeof GatewayError>) {
    super(...error)
    this.dialect = dialect
  }
}

type ErrorResponse = { status: number; headers: Record<string, string>; body: string }

/**
 * The response for an error, in the format of its path. A provider's own refusal of a Messages request is passed on
 * with its status and its bytes: clients act on its exact wording.
 */
export function errorResponse(failure: GatewayError, path: string, requestId: string): ErrorResponse {
  const headers = headersOf(failure)
  if (failure instanceof DialectError) {
    const body = bodiesByDialect[failure.dialect](failure, requestId)
    return { status: failure.status, headers, body: JSON.stringify(body) }
  }
  if (isResponsesPath(path))
    return { status: responsesErrorStatus(failure), headers, body: JSON.stringify(responsesErrorBody(failure)) }
  if (isGooglePath(path))
    return { status: failure.status, headers, body: JSON.stringify(googleErrorBody(failure, requestId)) }
  if (!isMessagesPath(path)) return { status: failure.status, headers, body: JSON.stringify(failure.body) }
  const received = receivedError(failure)
  if (received) return { ...received, headers: { ...headers, ...received.headers } }
  const body = JSON.stringify(messagesErrorBody(failure, requestId))
  return { status: messagesErrorStatus(failure), headers, body }
}

/** Statuses of requests that would fail again. No client repeats a 400. */
const permanentStatuses: ReadonlySet<number> = new Set([401, 402, 403, 404, 405, 409, 413, 415, 426])

/** With `x-should-retry`, by which clients do not repeat what cannot succeed: Claude Code repeats a 401 for minutes. */
function headersOf({ status, code, needsOperator, headers }: GatewayError): Record<string, string> {
  const isPermanent = needsOperator || permanentStatuses.has(status)
  return {
    ...headers,
    ...(status === 401 && { 'www-authenticate': 'Bearer' }),
    ...(isPermanent && { 'x-should-retry': String(code === 'idempotency_in_progress') }),
  }
}

const bodiesByDialect: { [dialect in ErrorDialect]: (failure: GatewayError, requestId: string) => object } = {
  usual: ({ body }) => body,
  messages: messagesErrorBody,
  google: (failure, requestId) => googleErrorBody(failure, requestId),
  // Ollama's clients show `error`, whatever it is: https://github.com/ollama/ollama-js/blob/main/src/utils.ts.
  text: ({ message }) => ({ error: message }),
  // Of Bedrock and Cohere, whose client @ai-sdk/cohere 4 shows no other member.
  flat: ({ message }) => ({ message }),
  // Of problem details, which the clients of Replicate and fal show (replicate 1.0, exceptions.py; fal_client 1.0, _raise_for_status);
  // fal's for JavaScript shows `message` only (@fal-ai/client 1, src/response.js).
  detail: ({ message }) => ({ detail: message, message }),
}
