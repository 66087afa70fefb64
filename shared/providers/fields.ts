import { type FailureReason, ProviderError } from './contract.ts'

/**
 * Reads providers' JSON field by field. `path` is dotted: `data.task_id`, `videos.0.url`, or '' for the whole. What is not
 * as it must be throws a ProviderError `invalid_response` naming the path, never the value.
 */

export type Json = Record<string, unknown>
export type Headers = Record<string, string | string[] | undefined>

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** What an answer that is not understood is reported as. */
export function invalid(what: string): ProviderError {
  return new ProviderError('invalid_response', `The provider's answer is not understood: ${what}.`)
}

/** The value at a path; undefined when there is none. */
export function at(json: unknown, path: string): unknown {
  let value = json
  for (const name of path === '' ? [] : path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Json)[name]
  }
  return value
}

/** A text that is not empty. */
export function text(json: unknown, path: string): string {
  return optionalText(json, path) ?? missing(path, 'text')
}

/** A text, or null where there is none or an empty one. */
export function optionalText(json: unknown, path: string): string | null {
  const value = at(json, path)
  return typeof value === 'string' && value !== '' ? value : null
}

/** A handle to put into a path: a text or a number of letters, digits and `. _ : -`, at most 200 of them. */
export function handle(json: unknown, path: string): string {
  const value = at(json, path)
  const id = typeof value === 'number' ? String(value) : value
  return typeof id === 'string' && /^[\w:-][\w.:-]{0,199}$/.test(id) ? id : missing(path, 'handle')
}

/** A finite number; decimal texts count as numbers. */
export function number(json: unknown, path: string): number {
  return optionalNumber(json, path) ?? missing(path, 'number')
}

export function optionalNumber(json: unknown, path: string): number | null {
  const value = at(json, path)
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  return typeof value === 'string' && /^-?\d{1,15}(\.\d{1,15})?$/.test(value) ? Number(value) : null
}

/** A number that cannot be below zero, such as a length or what was charged; null where there is none. */
export function optionalAmount(json: unknown, path: string): number | null {
  const value = optionalNumber(json, path)
  if (value !== null && value < 0) throw invalid(`its \`${path}\` is below zero`)
  return value
}

export function list(json: unknown, path: string): unknown[] {
  const value = at(json, path)
  return Array.isArray(value) ? value : missing(path, 'list')
}

/** An absolute http(s) or data URL, as it stands. */
export function link(json: unknown, path: string): string {
  return optionalLink(json, path) ?? missing(path, 'URL')
}

export function optionalLink(json: unknown, path: string): string | null {
  const value = optionalText(json, path)
  return value && /^(https?|data):/i.test(value) && URL.canParse(value) ? value : null
}

/** The JSON of a text, or null. */
export function parsed(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return null
  }
}

function missing(path: string, kind: string): never {
  throw invalid(`it has no ${kind} \`${path}\``)
}

const longestMessage = 1_000
const longestRead = 64 * 1024
const longestRetryMs = 24 * 60 * 60 * 1000

/** Shown instead of the provider's words where those speak of our account. */
const fixedMessages: { [R in FailureReason]?: string } = {
  auth: "The provider refused the gateway's credentials.",
  quota: "The gateway's account at the provider has no credit left.",
}

/** What a provider may repeat and nobody else needs: signatures of addresses, whole files, credentials. */
const secrets: [RegExp, string][] = [
  [/(https?:\/\/[^\s"'?]{1,500})\?[^\s"']*/g, '$1'],
  [/data:[\w/+.-]{1,80};base64,[\w+/=]*/g, '[data]'],
  [/\b(?:sk[-_]|r8_|msy_|mhk_|whsec_|key_)[\w-]{6,}|\b(?:Bearer|Key|Token) [\w.:-]{16,}/g, '[redacted]'],
]

/** A provider's words without signatures of addresses, whole files and credentials. */
export function discreet(message: string): string {
  return secrets.reduce((shown, [secret, instead]) => shown.replace(secret, instead), message.slice(0, longestRead))
}

/** A provider's refusal with its reason and words; `status` null for work that failed later. */
export function refusal(
  reason: FailureReason,
  message: string,
  status: number | null = null,
  headers: Headers = {},
): ProviderError {
  const words = discreet(message)
  const fallback = status ? `The provider answered with status ${status}.` : 'The provider reported a failure.'
  const retryAfterMs = retryDelayMs(headers)
  return new ProviderError(reason, fixedMessages[reason] ?? (words.slice(0, longestMessage) || fallback), {
    ...(status !== null && { status }),
    ...(retryAfterMs !== null && { retryAfterMs }),
  })
}

/** What statuses with a meaning of their own say, whoever the provider is. */
export const reasonsByStatus: ReadonlyMap<number, FailureReason> = new Map([
  [401, 'auth'],
  [402, 'quota'],
  [403, 'auth'],
  [404, 'model_unavailable'],
  [408, 'server_error'],
  [409, 'server_error'],
  [425, 'server_error'],
  [429, 'rate_limited'],
  [503, 'overloaded'],
  [529, 'overloaded'],
])

/** What most providers mean by a status. */
export function reasonOfStatus(status: number): FailureReason {
  return (
    reasonsByStatus.get(status) ??
    (status >= 500 ? 'server_error' : status >= 400 ? 'invalid_request' : 'invalid_response')
  )
}

/** `retry-after` in seconds, or as an HTTP date counted from the answer's own `date`; null when there is none. */
function retryDelayMs(headers: Headers): number | null {
  const value = String(headers['retry-after'] ?? '').trim()
  if (/^\d{1,12}(\.\d+)?$/.test(value)) return Math.min(Math.ceil(Number(value) * 1000), longestRetryMs)
  const delayMs = Date.parse(value) - Date.parse(String(headers.date ?? ''))
  return Number.isNaN(delayMs) ? null : Math.min(Math.max(0, delayMs), longestRetryMs)
}
