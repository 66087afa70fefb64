import type { FailureReason, ProviderError } from '../../provider-error.ts'
import { type Headers, parseJsonOrNull, readOptionalText, valueAt } from '../../toolkit/json-fields.ts'
import { reasonOfStatus, refusal } from '../../toolkit/refusal.ts'

/**
 * Error types more specific than the status (fal.ai/docs/documentation/model-apis/errors and …/request-errors). Types of
 * services behind a model also come with 422 (vm0-ai/vm0#34356).
 */
const byType = new Map<string, FailureReason>([
  ['content_policy_violation', 'content_filter'],
  // What the model says to this prompt, such as "unsafe content": Gemini's image models and Veo refuse so, with 422.
  ['no_media_generated', 'content_filter'],
  // A file that this gateway serves, or a service behind the model.
  ['file_download_error', 'server_error'],
  ['downstream_service_error', 'server_error'],
  ['downstream_service_unavailable', 'server_error'],
  ['internal_server_error', 'server_error'],
  // Cancelled in fal's dashboard, or by its own side: the input is not at fault.
  ['client_cancelled', 'server_error'],
  ['client_disconnected', 'server_error'],
  ['request_timeout', 'timeout'],
  ['startup_timeout', 'timeout'],
  ['generation_timeout', 'timeout'],
])

/** `{"detail":"…"}` or `{"detail":[{loc, msg, type}]}`, with `error_type` for infrastructure errors. */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const json = parseJsonOrNull(body)
  const message = messageOf(json)
  const type = readOptionalText(json, 'detail.0.type') ?? readOptionalText(json, 'error_type')
  return refusal(reasonOf(status, type, message), message, status, headers)
}

/** What the queue's status says of work that failed: `error`, `error_type` (fal_client, Completed); null if nothing. */
export function failureOfWork(status: unknown): ProviderError | null {
  const [words, type] = [readOptionalText(status, 'error'), readOptionalText(status, 'error_type')]
  if (words === null && type === null) return null
  return refusal(byType.get(type ?? '') ?? 'server_error', words ?? '')
}

function reasonOf(status: number, type: string | null, message: string): FailureReason {
  const reason = type === null ? undefined : byType.get(type)
  if (reason) return reason
  // An account without credit is locked, not reported as 402.
  if (status === 403 && /exhausted balance|user is locked/i.test(message)) return 'quota'
  return reasonOfStatus(status)
}

function messageOf(json: unknown): string {
  const detail = valueAt(json, 'detail')
  if (typeof detail === 'string') return detail
  const words = readOptionalText(json, 'detail.0.msg') ?? readOptionalText(json, 'error') ?? ''
  const loc = valueAt(json, 'detail.0.loc')
  const location = Array.isArray(loc) ? loc.filter(part => part !== 'body').join('.') : ''
  return location ? `${location}: ${words}` : words
}

/** The model's field that a failure's message begins with; null if there is none. */
export function modelFieldOf({ message }: ProviderError): string | null {
  return /^(\w+)(?:\.\w+)*: /.exec(message)?.[1] ?? null
}
