import { z } from 'zod'
import { type FailureReason, ProviderError } from '../../provider-error.ts'
import { isContextOverflow } from '../../toolkit/context-overflow.ts'
import { readErrorText } from '../../toolkit/error-text.ts'
import { type Headers, readOptionalNumber, readOptionalText } from '../../toolkit/json-fields.ts'
import { isAbsentModel, reasonOfStatus, refusal } from '../../toolkit/refusal.ts'

const reported = z.object({
  error: z.object({
    message: z.string().catch(''),
    status: z.string().catch(''),
    details: z
      .array(
        z.looseObject({
          reason: z.unknown().optional(),
          retryDelay: z.unknown().optional(),
          fieldViolations: z
            .array(z.looseObject({ field: z.string(), description: z.string() }))
            .optional()
            .catch([]),
        }),
      )
      .catch([]),
  }),
})
type Reported = z.infer<typeof reported>['error']

/** Classifies a response outside 2xx. A stream without `alt=sse` reports its error inside an array. */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  const error = parse(body)
  const delay = retryDelay(error)
  return refusal(reasonOf(status, error), withoutAccount(messageOf(error)), status, {
    ...headers,
    ...(delay !== null && { 'retry-after': delay }),
  })
}

/** HTTP statuses of the google.rpc codes of failed work. */
const httpStatus: Record<number, number> = { 3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 9: 400, 13: 500, 14: 503, 16: 401 }
/** Interaction errors have textual codes. */
const wordStatuses: [words: RegExp, status: number][] = [
  [/invalid|unsupported|bad_request/i, 400],
  [/auth|permission|forbidden/i, 403],
  [/not_found/i, 404],
  [/rate_?limit|quota|exhausted|too_many/i, 429],
  [/unavailable|overloaded/i, 503],
]
const refusedByPolicy = /usage guidelines|responsible ai|safety|prohibited/i

/** Classifies the failure of accepted work: a `google.rpc.Status`, or the error of an interaction. */
export function statusFailure(error: unknown): ProviderError {
  const code = readOptionalNumber(error, 'code')
  const words = readOptionalText(error, 'code') ?? ''
  const wordStatus = wordStatuses.find(([pattern]) => pattern.test(words))?.[1] ?? 500
  const status = code === null ? wordStatus : (httpStatus[code] ?? (code >= 400 && code <= 599 ? code : 500))
  const classified = failure(status, {}, JSON.stringify({ error }))
  const isPolicyRefusal = classified.reason === 'invalid_request' && refusedByPolicy.test(classified.message)
  return isPolicyRefusal ? new ProviderError('content_filter', classified.message, { status }) : classified
}

/**
 * What Google says with a 429 of an account without money: "Your prepayment credits are depleted." (dyad-sh/dyad#3626) and
 * "Your project has exceeded its monthly spending cap."
 */
const unpaid = /prepayment credits are depleted|exceeded its monthly spending cap/i

/**
 * Whether a 429 is of an account that cannot pay. The words "check your plan and billing details" are of rate limits as
 * well, but these name the limit and the delay in their details.
 */
function isUnpaid({ message, details }: Reported): boolean {
  return unpaid.test(message) || (details.length === 0 && /check your plan and billing details/i.test(message))
}

function reasonOf(status: number, error: Reported): FailureReason {
  if (status === 429 && isUnpaid(error)) return 'quota'
  if (status === 400) {
    const ours =
      error.details.some(detail => detail.reason === 'API_KEY_INVALID') ||
      /API key (not valid|expired)/i.test(error.message)
    if (ours) return 'auth'
    if (isAbsentModel(error.message)) return 'model_unavailable'
    // Free tier not offered at our location, billing not enabled: these concern our account, not the caller's input.
    if (error.status === 'FAILED_PRECONDITION') return /billing/i.test(error.message) ? 'quota' : 'auth'
    if (isContextOverflow(error.message)) return 'context_length'
  }
  return reasonOfStatus(status)
}

function parse(body: string): Reported {
  let json: unknown
  try {
    json = JSON.parse(body)
  } catch {
    json = body
  }
  const result = reported.safeParse(Array.isArray(json) ? json[0] : json)
  return result.success ? result.data.error : { message: readErrorText(json).message, status: '', details: [] }
}

const maxViolations = 5

/** The message, with the invalid fields that it does not name. */
function messageOf({ message, details }: Reported): string {
  const violations = details.flatMap(({ fieldViolations = [] }) => fieldViolations).slice(0, maxViolations)
  const unnamed = violations.filter(({ description }) => !message.includes(description))
  return [message, ...unnamed.map(({ field, description }) => `${field}: ${description}`)].join(' ').trim()
}

/** `google.rpc.RetryInfo` in seconds: a protobuf duration such as `31s` or `0.5s`. */
function retryDelay(error: Reported): string | null {
  const delay = error.details.find(detail => typeof detail.retryDelay === 'string')?.retryDelay
  return /^(\d{1,7}(?:\.\d+)?)s$/.exec(String(delay))?.[1] ?? null
}

/** Google's messages name the project and sometimes the key, which the caller must not see. */
function withoutAccount(message: string): string {
  return message
    .replace(/AIza[\w-]{10,}/g, '(key)')
    .replace(/\bprojects?(\/|_number:|[ :#]+(?=\d))[\w-]+/gi, 'project (ours)')
}
