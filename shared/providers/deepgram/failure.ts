import { type FailureReason, ProviderError } from '../contract.ts'
import { type Headers, optionalText, parsed, reasonOfStatus, refusal } from '../fields.ts'
import { withParam } from '../param.ts'

/** What some statuses mean here (developers.deepgram.com/docs/errors). */
const reasons: ReadonlyMap<number, FailureReason> = new Map([
  // A model that the account may not use.
  [403, 'model_unavailable'],
  // The file did not arrive whole.
  [422, 'server_error'],
])

/** Classifies an answer that is not 2xx: `{err_code, err_msg}`, or `{category, message, details}`. */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const json = parsed(body)
  const message = optionalText(json, 'err_msg') ?? optionalText(json, 'message') ?? ''
  const error = refusal(reasons.get(status) ?? reasonOfStatus(status), message, status, headers)
  return status === 400 ? withParam(error, fieldOf(message)) : error
}

/** The same where no language was asked for: what Deepgram does not know is the model then. */
export function withoutLanguage(error: unknown): unknown {
  if (!(error instanceof ProviderError) || error.param !== 'language') return error
  return new ProviderError('model_unavailable', error.message, { status: error.status! })
}

/** The field of ours that a refusal is about, as far as its words tell. */
function fieldOf(message: string): string | null {
  if (/corrupt or unsupported data/i.test(message)) return 'audio_url'
  return /language/i.test(message) ? 'language' : null
}
