import { type FailureReason, ProviderError } from '../../provider-error.ts'
import { withParam } from '../../toolkit/error-param.ts'
import { type Headers, parseJsonOrNull, readOptionalText } from '../../toolkit/json-fields.ts'
import { reasonOfStatus, refusal } from '../../toolkit/refusal.ts'

/** Statuses with a special meaning (developers.deepgram.com/docs/errors). */
const reasons: ReadonlyMap<number, FailureReason> = new Map([
  // The account has no access to the model.
  [403, 'model_unavailable'],
  // The upload was incomplete.
  [422, 'server_error'],
])

/** Classifies a response outside 2xx: `{err_code, err_msg}`, or `{category, message, details}`. */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const json = parseJsonOrNull(body)
  const message = readOptionalText(json, 'err_msg') ?? readOptionalText(json, 'message') ?? ''
  const error = refusal(reasons.get(status) ?? reasonOfStatus(status), message, status, headers)
  return status === 400 ? withParam(error, fieldOf(message)) : error
}

/** The same failure where no language was requested: Deepgram then does not know the model. */
export function withoutLanguage(error: unknown): unknown {
  if (!(error instanceof ProviderError) || error.param !== 'language') return error
  return new ProviderError('model_unavailable', error.message, { status: error.status! })
}

/** The request field that a refusal concerns, if its message names one. */
function fieldOf(message: string): string | null {
  if (/corrupt or unsupported data/i.test(message)) return 'audio_url'
  if (/keyterm/i.test(message)) return 'keywords'
  return /language/i.test(message) ? 'language' : null
}
