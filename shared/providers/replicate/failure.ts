import type { FailureReason, ProviderError } from '../contract.ts'
import { type Headers, optionalText, parsed, reasonOfStatus, refusal } from '../fields.ts'

const resetsInSeconds = /resets in ~?(\d{1,5})s/

/** `{"title","detail","status"}` or `{"detail"}`. A throttled request is told when to come back in words only. */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const json = parsed(body)
  const message = optionalText(json, 'detail') ?? optionalText(json, 'title') ?? ''
  const [, seconds] = resetsInSeconds.exec(message) ?? []
  const waiting = seconds && !headers['retry-after'] ? { ...headers, 'retry-after': seconds } : headers
  return refusal(reasonOfStatus(status), message, status, waiting)
}

/** What a prediction's `error` says of it: a text of the model's own making. */
export function reasonOfText(message: string): FailureReason {
  return /flagged as sensitive|\(E005\)|nsfw|content (policy|moderation)/i.test(message)
    ? 'content_filter'
    : 'server_error'
}

/** The field of the input that a failure's message speaks of; null where it does not. */
export function placeOf({ message }: ProviderError): string | null {
  return /\binput\.(\w+)/.exec(message)?.[1] ?? null
}
