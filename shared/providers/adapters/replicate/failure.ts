import type { FailureReason, ProviderError } from '../../provider-error.ts'
import { unfitSize } from '../../toolkit/classify-by-message.ts'
import { type Headers, parseJsonOrNull, readOptionalText } from '../../toolkit/json-fields.ts'
import { reasonOfStatus, refusal } from '../../toolkit/refusal.ts'

/** “The specified version does not exist (or perhaps you don't have permission to use it?)”, with status 422. */
const noVersion = /^invalid version or not permitted/i
const resetsInSeconds = /resets in ~?(\d{1,5})s/

/** `{"title","detail","status"}` or `{"detail"}`. A throttled request gets its retry delay in the message only. */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const json = parseJsonOrNull(body)
  const message = readOptionalText(json, 'detail') ?? readOptionalText(json, 'title') ?? ''
  const [, seconds] = resetsInSeconds.exec(message) ?? []
  const waiting = seconds && !headers['retry-after'] ? { ...headers, 'retry-after': seconds } : headers
  const isAbsent = noVersion.test(readOptionalText(json, 'title') ?? '')
  return refusal(isAbsent ? 'model_unavailable' : reasonOfStatus(status), message, status, waiting)
}

/** Classifies a prediction's `error`: a free text from the model. */
export function reasonOfText(message: string): FailureReason {
  if (/flagged as sensitive|\(E005\)|nsfw|content (policy|moderation)|risk control/i.test(message))
    return 'content_filter'
  return unfitSize.test(message) ? 'invalid_request' : 'server_error'
}

/** The input field that a failure's message mentions; null if there is none. */
export function modelFieldOf({ message }: ProviderError): string | null {
  return /\binput\.(\w+)/.exec(message)?.[1] ?? null
}
