import type { FailureReason, ProviderError } from '../../provider-error.ts'
import { withParam } from '../../toolkit/error-param.ts'
import { type Headers, parseJsonOrNull, readOptionalText, valueAt } from '../../toolkit/json-fields.ts'
import { reasonOfStatus, refusal } from '../../toolkit/refusal.ts'

const noCredits = /(not|n't) have enough credits|insufficient credits|out of credits/i
/** A file that this gateway serves (docs.dev.runwayml.com/errors/troubleshooting). */
const unfetched = /failed to fetch asset|timeout while fetching asset/i
const noModel = /model .{0,80}not available/i

/** Prefixes of `failureCode`, more specific ones first (docs.dev.runwayml.com/errors/task-failures). */
const byCode: [string, FailureReason][] = [
  ['SAFETY', 'content_filter'],
  ['INPUT_PREPROCESSING.SAFETY', 'content_filter'],
  ['INPUT_PREPROCESSING.INTERNAL', 'server_error'],
  ['INPUT_PREPROCESSING', 'invalid_request'],
  ['ASSET', 'invalid_request'],
  ['INTERNAL', 'server_error'],
  ['THIRD_PARTY', 'server_error'],
]

/** Our field names by Runway's. */
const params: ReadonlyMap<unknown, string> = new Map([
  ['promptText', 'prompt'],
  ['promptImage', 'start_image_url'],
  ['videoUri', 'input_video_url'],
  ['reference', 'input_video_url'],
  ['character', 'start_image_url'],
  ['referenceImages', 'input_references'],
  ['duration', 'seconds'],
  ['seed', 'seed'],
])

/** Classifies a response outside 2xx: `{error, issues?: [{path, message}]}`. */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const json = parseJsonOrNull(body)
  const message = readOptionalText(json, 'error') ?? ''
  const words = [message, issueOf(json)].filter(Boolean).join(': ')
  // Runway's own answer while it sheds load (docs.dev.runwayml.com/errors/errors); that of a proxy on the way is not JSON.
  const isShedding = (status === 502 || status === 504) && message !== ''
  return withParam(
    refusal(isShedding ? 'overloaded' : reasonOf(status, words), words, status, headers),
    params.get(valueAt(json, 'issues.0.path.0')) ?? null,
  )
}

/** A failed task. Runway's messages are for developers, so they are shown with their code. */
export function failureOfTask(code: string | null, words: string | null): ProviderError {
  const reason = byCode.find(([start]) => code === start || code?.startsWith(`${start}.`))?.[1] ?? 'server_error'
  return refusal(reason, `The provider’s task failed: ${words ?? 'no reason given'} (${code ?? 'no code'})`)
}

function reasonOf(status: number, message: string): FailureReason {
  if (status < 500 && noCredits.test(message)) return 'quota'
  if (status === 400 && unfetched.test(message)) return 'server_error'
  if (status === 403 && noModel.test(message)) return 'model_unavailable'
  return reasonOfStatus(status)
}

/** The first field in Runway's validation errors. */
function issueOf(json: unknown): string | null {
  const words = readOptionalText(json, 'issues.0.message')
  const path = valueAt(json, 'issues.0.path')
  return words && Array.isArray(path) ? `${path.join('.')}: ${words}` : words
}
