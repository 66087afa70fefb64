import type { ErrorBody, GatewayError } from '../base/errors.ts'
import { nameInResponses } from '../kinds/responses.ts'
import type { ResponsesObject } from '../kinds/responses-answer.ts'
import { isModelFault } from '../providers/toolkit/model-faults.ts'
import { isBusy, messageInStream } from './failures.ts'

/** Errors of the Responses routes: OpenAI's shape, with the codes upon which its clients stop. */

/** The code of OpenAI's API for an account that cannot pay. Clients repeat a 402, but not a 429 with this code. */
const cannotPay = 'insufficient_quota'

type ResponsesErrorBody = {
  error: Omit<ErrorBody['error'], 'code'> & { code: string }
}

/** The status of an error: 429 where OpenAI has it for an account that cannot pay. */
export function responsesErrorStatus({ status }: GatewayError): number {
  return status === 402 ? 429 : status
}

/** The error body; where our code is replaced by OpenAI's, it is in `metadata.code`. */
export function responsesErrorBody(failure: GatewayError): ResponsesErrorBody {
  const { body, status, code, metadata } = failure
  if (status !== 402) return body
  return { error: { ...body.error, type: cannotPay, code: cannotPay, metadata: { ...metadata, code } } }
}

/** The code of an error in a failed response. */
function codeOf(failure: GatewayError): string {
  if (failure.status === 402) return cannotPay
  if (failure.code === 'context_length_exceeded') return failure.code
  if (failure.needsOperator) return 'invalid_prompt'
  if (failure.code === 'rate_limit_exceeded' || isBusy(failure)) return 'rate_limit_exceeded'
  return failure.status < 500 && !isModelFault(failure.code) ? 'invalid_prompt' : 'server_error'
}

/** A response that failed after it had begun, with the error; `message` says what clients of a stream look for. */
export function failedResponse(
  response: ResponsesObject,
  failure: GatewayError,
  message = messageInStream(failure),
): ResponsesObject {
  const waitS = Number(failure.headers['retry-after'])
  const advice = waitS > 0 ? ` Please try again in ${waitS}s.` : ''
  const { code, failedGeneration } = failure
  const error = {
    code: codeOf(failure),
    message: message + advice,
    metadata: { ...failure.metadata, code, ...(failedGeneration !== null && { failed_generation: failedGeneration }) },
  }
  return { ...response, status: 'failed', error, output: [], usage: null }
}

/** The error with the name that its field has in a Responses request. */
export function inResponsesTerms(failure: GatewayError): GatewayError {
  if (failure.param === null) return failure
  const name = nameInResponses(failure.param)
  return name === failure.param ? failure : failure.withParam(name)
}
