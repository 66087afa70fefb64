import { asText } from '../../../base/as-text.ts'
import { type FailureReason, ProviderError } from '../../provider-error.ts'
import { isContextOverflow } from '../../toolkit/context-overflow.ts'
import { maxErrorCharacters, readErrorText } from '../../toolkit/error-text.ts'
import { type Headers, parseJsonOrText } from '../../toolkit/json-fields.ts'
import { modelFaultOf } from '../../toolkit/model-faults.ts'
import { isAbsentModel, reasonOfStatus, refusal } from '../../toolkit/refusal.ts'

/** The errors of the runtime, by their names (docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html). */
const byType: Record<string, FailureReason> = {
  accessdeniedexception: 'auth',
  expiredtokenexception: 'auth',
  incompletesignatureexception: 'auth',
  invalidclienttokenidexception: 'auth',
  invalidsignatureexception: 'auth',
  missingauthenticationtokenexception: 'auth',
  unrecognizedclientexception: 'auth',
  servicequotaexceededexception: 'rate_limited',
  throttlingexception: 'rate_limited',
  toomanyrequestsexception: 'rate_limited',
  resourcenotfoundexception: 'model_unavailable',
  validationexception: 'invalid_request',
  // 424: the model failed, the request may be fine.
  modelerrorexception: 'server_error',
  modelstreamerrorexception: 'server_error',
  modeltimeoutexception: 'server_error',
  // 429: the SDK waits for the model to be loaded and sends the request again.
  modelnotreadyexception: 'overloaded',
  serviceunavailableexception: 'overloaded',
  internalserverexception: 'server_error',
}

/** 403 of a marked request for a model without a cache (BerriAI/litellm#39210): the credentials are right. */
const unmarkable = /did not allow prompt caching/i
/** Names and ids of accounts, which a caller must not see. */
const account = /arn:aws[\w-]*:[\w:/.*+=@-]{1,300}|\b\d{12}\b|\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bbedrock-api-key-[\w=+/-]+/g

/** Classifies a response outside 2xx. The header has the name of the error, sometimes with a namespace after a colon. */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const type = String(headers['x-amzn-errortype'] ?? '')
  return failureOf(type, body, status, headers)
}

/** Classifies an exception in a stream, whose status is unknown. */
export function streamFailure(type: string, body: string): ProviderError {
  return failureOf(type, body, null, {})
}

function failureOf(type: string, body: string, status: number | null, headers: Headers): ProviderError {
  const json = parseJsonOrText(body)
  const { message, __type: ownType = '', originalMessage } = Object(json) as Record<string, unknown>
  const name = (type || asText(ownType)).replace(/^.*#/, '').replace(/:.*$/, '').toLowerCase()
  const own = [message, originalMessage].filter(Boolean).map(asText).join(': ').slice(0, maxErrorCharacters)
  const text = own || readErrorText(json).message
  const words = text.replace(account, '[redacted]')
  const fault = modelFaultOf([], words, null)
  if (fault) return new ProviderError('model_fault', words, { ...(status !== null && { status }), modelFault: fault })
  return refusal(reasonOf(name, status, words), words, status, headers)
}

function reasonOf(name: string, status: number | null, words: string): FailureReason {
  const reason = Object.hasOwn(byType, name) ? byType[name]! : reasonOfStatus(status ?? 500)
  if (unmarkable.test(words)) return 'invalid_request'
  if ((reason === 'invalid_request' || reason === 'auth') && isAbsentModel(words)) return 'model_unavailable'
  // A model that fails with a validation error in its words was given what it does not take (424, or within a stream).
  if (isContextOverflow(words) && reason !== 'rate_limited' && reason !== 'auth') return 'context_length'
  return reason
}
