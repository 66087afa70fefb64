import type { FailureReason, ProviderError } from '../../provider-error.ts'
import { classifyWorkFailure } from '../../toolkit/classify-by-message.ts'
import { type Headers, parseJsonOrNull, readOptionalNumber, readOptionalText } from '../../toolkit/json-fields.ts'
import { reasonOfStatus, refusal } from '../../toolkit/refusal.ts'

/** Kling's own codes, more specific than the status: each may also come with status 200. */
const byCode = new Map<number, FailureReason>([
  [1000, 'auth'],
  [1001, 'auth'],
  [1002, 'auth'],
  [1003, 'auth'],
  [1004, 'auth'],
  [1100, 'auth'],
  [1101, 'quota'],
  [1102, 'quota'],
  [1103, 'auth'],
  [1200, 'invalid_request'],
  [1201, 'invalid_request'],
  [1202, 'model_unavailable'],
  [1203, 'model_unavailable'],
  [1300, 'content_filter'],
  [1301, 'content_filter'],
  [1302, 'rate_limited'],
  [1303, 'rate_limited'],
  [1304, 'auth'],
  [5000, 'server_error'],
  [5001, 'overloaded'],
  [5002, 'server_error'],
])

const notFound = 1203
const invalidParameter = 1201
const takenId = /external_task_id.{0,80}(unique|already|duplicate|repeat)/i
const policy = /risk control|content polic|sensitive|violat|safety/i

/** Classifies a response outside 2xx, or one of status 200 whose `code` is not 0. */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const json = parseJsonOrNull(body)
  const words = readOptionalText(json, 'message') ?? ''
  // Our id exists already: an earlier start of this job arrived. Without a status this is not taken for a refusal.
  if (takenId.test(words)) return refusal('server_error', words, null, headers)
  const reason = byCode.get(readOptionalNumber(json, 'code') ?? 0) ?? reasonOfStatus(status)
  return refusal(reason, words, status, headers)
}

/** True when the response explicitly states that there is no such task. */
export function isNotFound(json: unknown): boolean {
  const code = readOptionalNumber(json, 'code')
  const words = readOptionalText(json, 'message') ?? ''
  return code === notFound || (code === invalidParameter && /task.{0,80}(not found|not exist)/i.test(words))
}

/** A failed task, with Kling's message, e.g. “Image pixel is invalid” of a picture that is too small (QuantumNous/new-api#2532). */
export function failureOfTask(words: string | null): ProviderError {
  return words && policy.test(words) ? refusal('content_filter', words) : classifyWorkFailure(words)
}
