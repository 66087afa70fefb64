import { asText } from '../../../base/as-text.ts'
import { isObject } from '../../../base/is-object.ts'
import { createdAt, isUnixTime } from '../../../base/time.ts'
import type { Usage } from '../../../base/usage.ts'
import type { ProviderRow } from '../../../catalog/schema.ts'
import type { ResponsesStatus } from '../../../kinds/responses-answer.ts'
import { isBilledSearch } from '../../../kinds/web-search.ts'
import type { ProviderError } from '../../provider-error.ts'
import { invalidResponse, type Json } from '../../toolkit/json-fields.ts'
import { count, extrasOf, mapUnlessSame, normaliseUsage } from './answer.ts'
import { reportedFailure } from './failure.ts'
import { argumentsText, isGiven, unnamedTool } from './tool-calls.ts'

/** A response object with what the gateway reads. Throws a ProviderError `invalid_response`. */
export function responseFrom(json: unknown): Json & { id: string; output: Json[] } {
  if (!isObject(json)) throw invalidResponse('the response is not an object')
  if (typeof json.id !== 'string') throw invalidResponse('the response has no id')
  if (json.object !== 'response' && json.output === undefined) throw invalidResponse('it is no response')
  const output = json.output ?? []
  if (!Array.isArray(output) || !output.every(item => isObject(item) && typeof item.type === 'string'))
    throw invalidResponse('the output is not a list of items')
  return json as Json & { id: string; output: Json[] }
}

const unfinished: ReadonlySet<unknown> = new Set<ResponsesStatus>(['queued', 'in_progress'])
const finished: ReadonlySet<unknown> = new Set<ResponsesStatus>(['completed', 'incomplete', 'failed', 'cancelled'])

/**
 * A response as OpenAI's are, the same object if it is one: servers give calls without arguments '' (openai/openai-agents-js#499),
 * and times with decimals (looplj/axonhub#2187). `ending`: what its end has said of it; null = more follows. A status that OpenAI does
 * not have could not be stored.
 */
export function completeResponse<R extends Json>(response: R, ending: ResponsesStatus | null): R {
  const { created_at: created, output, status: given } = response
  const items = Array.isArray(output) ? mapUnlessSame(output, item => completeItem(item as Json)) : []
  const status = statusOf(given, ending)
  if (items === output && status === given && (created === undefined || isUnixTime(created))) return response
  return { ...response, status, output: items, created_at: createdAt(created) }
}

function statusOf(given: unknown, ending: ResponsesStatus | null): unknown {
  if (finished.has(given)) return given
  if (ending === null) return unfinished.has(given) ? given : 'in_progress'
  return unfinished.has(given) ? 'incomplete' : ending
}

/** An item that has ended, with a name and arguments that clients can parse if it is a call; one that was cut off stays as it is. */
export function completeItem(item: Json): Json {
  if (item.type !== 'function_call' || item.status === 'incomplete') return item
  const text = argumentsText(item.arguments)
  const name = isGiven(item.name) ? item.name : unnamedTool
  return text === item.arguments && name === item.name ? item : { ...item, name, arguments: text }
}

/** Codes of a failed response that concern its request. */
const requestFaults = /^(?:invalid_|image_|unsupported_image|empty_image|failed_to_download_image)/
const policies = /_policy/

/** The failure that a response with the status `failed` reports. */
export function failureOfResponse({ error: given }: Json): ProviderError {
  const error = isObject(given) ? given : {}
  const code = asText(error.code ?? '')
  if (policies.test(code)) return reportedFailure({ error: { ...error, code: 'content_policy_violation' } })
  return reportedFailure({ error: requestFaults.test(code) ? { ...error, type: 'invalid_request_error' } : error })
}

/** The usage of a response in our shape, with the provider's stated cost; undefined if it has none. */
export function usageOf(response: Json, provider: ProviderRow): Usage | undefined {
  const { usage, service_tier } = response
  if (!isObject(usage)) return undefined
  const counts = {
    prompt_tokens: usage.input_tokens,
    completion_tokens: usage.output_tokens,
    total_tokens: usage.total_tokens,
    prompt_tokens_details: usage.input_tokens_details,
    completion_tokens_details: usage.output_tokens_details,
  }
  const own = normaliseUsage(counts)
  const searches = webSearchesIn(response)
  return (
    own && { ...own, ...(searches > 0 && { web_searches: searches }), ...extrasOf({ usage, service_tier }, provider) }
  )
}

/** The billed searches of a response: the provider's own count, else the calls that searched. */
function webSearchesIn({ tool_usage, output }: Json): number {
  const reported =
    isObject(tool_usage) && isObject(tool_usage.web_search) ? count(tool_usage.web_search.num_requests) : undefined
  return reported ?? (Array.isArray(output) ? output.filter(isBilledSearch).length : 0)
}
