import { z } from 'zod'
import { type FailureReason, ProviderError } from '../contract.ts'

const maxMessageLength = 1_000

const reported = z.object({
  error: z.object({
    message: z.string().catch(''),
    status: z.string().catch(''),
    details: z.array(z.looseObject({ reason: z.unknown().optional(), retryDelay: z.unknown().optional() })).catch([]),
  }),
})
type Reported = z.infer<typeof reported>['error']

/** Gemini's statuses (google.rpc.Code over HTTP) that need no look at the message. */
const reasons: Record<number, FailureReason> = {
  401: 'auth',
  402: 'quota',
  403: 'auth',
  404: 'model_unavailable',
  408: 'server_error',
  409: 'server_error',
  425: 'server_error',
  429: 'rate_limited',
  499: 'server_error',
  503: 'overloaded',
  529: 'overloaded',
}

/** Classifies an answer that is not 2xx. A stream without `alt=sse` reports its error inside an array. */
export function failure(
  status: number,
  headers: Record<string, string | string[] | undefined>,
  body: string,
): ProviderError {
  const error = parse(body)
  const reason = reasonOf(status, error)
  const message = withoutAccount(error.message).slice(0, maxMessageLength) || `Gemini answered with status ${status}`
  const retryAfterMs = retryDelayMs(error) ?? seconds(headers['retry-after'])
  return new ProviderError(reason, message, { status, ...(retryAfterMs !== null && { retryAfterMs }) })
}

function reasonOf(status: number, error: Reported): FailureReason {
  if (status === 400) {
    const ours =
      error.details.some(detail => detail.reason === 'API_KEY_INVALID') ||
      /API key (not valid|expired)/i.test(error.message)
    if (ours) return 'auth'
    // Free tier not offered at our location, billing not enabled: about our account, never about the caller's input.
    if (error.status === 'FAILED_PRECONDITION') return /billing/i.test(error.message) ? 'quota' : 'auth'
    if (/token count.*exceeds/i.test(error.message)) return 'context_length'
  }
  return reasons[status] ?? (status >= 500 ? 'server_error' : 'invalid_request')
}

function parse(body: string): Reported {
  let json: unknown
  try {
    json = JSON.parse(body)
  } catch {
    json = null
  }
  const result = reported.safeParse(Array.isArray(json) ? json[0] : json)
  return result.success ? result.data.error : { message: '', status: '', details: [] }
}

/** `google.rpc.RetryInfo`: a protobuf duration such as `31s` or `0.5s`. */
function retryDelayMs(error: Reported): number | null {
  const delay = error.details.find(detail => typeof detail.retryDelay === 'string')?.retryDelay
  const [, digits] = /^(\d+(?:\.\d+)?)s$/.exec(String(delay)) ?? []
  return seconds(digits)
}

function seconds(text: string | string[] | undefined): number | null {
  return typeof text === 'string' && /^\d{1,7}(\.\d+)?$/.test(text) ? Math.ceil(Number(text) * 1000) : null
}

/** Google's messages name the project and sometimes the key they speak of: neither is the caller's business. */
function withoutAccount(message: string): string {
  return message
    .replace(/AIza[\w-]{10,}/g, '(key)')
    .replace(/\bprojects?(\/|_number:|[ :#]+(?=\d))[\w-]+/gi, 'project (ours)')
}
