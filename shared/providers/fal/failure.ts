import type { FailureReason, ProviderError } from '../contract.ts'
import { at, type Headers, optionalText, parsed, reasonOfStatus, refusal } from '../fields.ts'

/** Kinds of faults that say more than the status (fal.ai/docs/documentation/model-apis/errors). */
const byType = new Map<string, FailureReason>([
  ['content_policy_violation', 'content_filter'],
  // Of a file that this gateway offers, or of a service behind the model.
  ['file_download_error', 'server_error'],
  ['downstream_service_error', 'server_error'],
  ['request_timeout', 'timeout'],
  ['startup_timeout', 'timeout'],
  ['generation_timeout', 'timeout'],
])

/** `{"detail":"…"}` or `{"detail":[{loc, msg, type}]}`, with `error_type` beside it for faults of the infrastructure. */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const json = parsed(body)
  const message = messageOf(json)
  const type = optionalText(json, 'detail.0.type') ?? optionalText(json, 'error_type')
  return refusal(reasonOf(status, type, message), message, status, headers)
}

function reasonOf(status: number, type: string | null, message: string): FailureReason {
  const reason = type === null ? undefined : byType.get(type)
  if (reason) return reason
  // An account without money is locked out rather than asked to pay.
  if (status === 403 && /exhausted balance|user is locked/i.test(message)) return 'quota'
  return reasonOfStatus(status)
}

function messageOf(json: unknown): string {
  const detail = at(json, 'detail')
  if (typeof detail === 'string') return detail
  const words = optionalText(json, 'detail.0.msg') ?? optionalText(json, 'error') ?? ''
  const loc = at(json, 'detail.0.loc')
  const place = Array.isArray(loc) ? loc.filter(part => part !== 'body').join('.') : ''
  return place ? `${place}: ${words}` : words
}

/** The model's field that a failure's message begins with; null where it does not. */
export function placeOf({ message }: ProviderError): string | null {
  return /^(\w+)(?:\.\w+)*: /.exec(message)?.[1] ?? null
}
