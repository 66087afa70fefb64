import type { GatewayError } from '../base/errors.ts'
import { nameInGemini } from '../kinds/generate-content-names.ts'
import { messageInStream } from './failures.ts'

/** Errors in the format of Google's APIs, for the routes of Gemini's dialect: https://cloud.google.com/apis/design/errors. */
type GoogleErrorBody = { error: { code: number; message: string; status: string; details: object[] } }

const statuses: { [status: number]: string } = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  408: 'DEADLINE_EXCEEDED',
  409: 'ABORTED',
  413: 'INVALID_ARGUMENT',
  415: 'INVALID_ARGUMENT',
  429: 'RESOURCE_EXHAUSTED',
  499: 'CANCELLED',
  500: 'INTERNAL',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}
const domain = 'headgate'

/**
 * The error body: our code is the `reason` of its `ErrorInfo`, the field is in a `BadRequest`, and the time to wait in a
 * `RetryInfo`, which gemini-cli obeys (packages/core/src/utils/googleQuotaErrors.ts).
 */
export function googleErrorBody(failure: GatewayError, requestId: string, message = failure.message): GoogleErrorBody {
  const { status: code, param, failedGeneration } = failure
  const waitS = Number(failure.headers['retry-after'])
  const field = param === null ? null : nameInGemini(param)
  const metadata = {
    code: failure.code,
    request_id: requestId,
    ...(field !== null && { param: field }),
    ...(failedGeneration !== null && { failed_generation: failedGeneration }),
  }
  const details = [
    { '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason: failure.code.toUpperCase(), domain, metadata },
    ...(field !== null && code === 400 ? [badRequest(field, failure.message)] : []),
    ...(waitS > 0 ? [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: `${waitS}s` }] : []),
    ...(failure.metadata ? [{ '@type': `type.googleapis.com/${domain}.Metadata`, ...failure.metadata }] : []),
  ]
  return { error: { code, message, status: statuses[code] ?? 'FAILED_PRECONDITION', details } }
}

function badRequest(field: string, description: string): object {
  return { '@type': 'type.googleapis.com/google.rpc.BadRequest', fieldViolations: [{ field, description }] }
}

/** The error that ends a stream, which is an event of it. */
export function googleErrorInStream(failure: GatewayError, requestId: string): GoogleErrorBody {
  return googleErrorBody(failure, requestId, messageInStream(failure))
}

/** The error with the name that its field has in Google's form. */
export function inGeminiTerms(failure: GatewayError): GatewayError {
  if (failure.param === null) return failure
  const name = nameInGemini(failure.param)
  return name === failure.param ? failure : failure.withParam(name)
}
