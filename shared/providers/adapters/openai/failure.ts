import { isObject } from '../../../base/is-object.ts'
import { type FailureReason, ProviderError } from '../../provider-error.ts'
import { isContextOverflow } from '../../toolkit/context-overflow.ts'
import { readErrorText } from '../../toolkit/error-text.ts'
import { type Headers, type Json, parseJsonOrText } from '../../toolkit/json-fields.ts'
import { modelFaultOf } from '../../toolkit/model-faults.ts'
import { reasonBesideStatus } from '../../toolkit/reason-beside-status.ts'
import { fixedMessages, isAbsentModel, reasonOfStatus, redactProviderMessage } from '../../toolkit/refusal.ts'
import { delayInWordsMs, delayUntilMs, retryAfterMs } from '../../toolkit/retry-after.ts'

/** Meanings of an error's `code`, `type` or OpenRouter's `error_type`; more specific than the status. */
const byCode = new Map<string, FailureReason>([
  ['insufficient_quota', 'quota'],
  ['credit_balance_exhausted', 'quota'],
  ['billing_hard_limit_reached', 'quota'],
  ['payment_required', 'quota'],
  ['billing_error', 'quota'],
  // OpenAI, with 429 (BerriAI/litellm#2743).
  ['billing_not_active', 'quota'],
  // Alibaba (hsliuping/TradingAgents-CN#170), BytePlus (coze-dev/coze-studio#2195).
  ['Arrearage', 'quota'],
  ['AccountOverdueError', 'quota'],
  ['context_length_exceeded', 'context_length'],
  ['context_window_exceeded', 'context_length'],
  ['model_context_window_exceeded', 'context_length'],
  ['exceed_context_size_error', 'context_length'],
  ['token_limit_exceeded', 'context_length'],
  ['tokens_limit_reached', 'context_length'],
  ['max_tokens_per_request', 'context_length'],
  ['prompt_too_long', 'context_length'],
  ['content_policy_violation', 'content_filter'],
  ['content_filter', 'content_filter'],
  ['ResponsibleAIPolicyViolation', 'content_filter'],
  ['moderation_blocked', 'content_filter'],
  ['refusal', 'content_filter'],
  // Alibaba (camel-ai/owl#432).
  ['data_inspection_failed', 'content_filter'],
  ['invalid_api_key', 'auth'],
  ['authentication', 'auth'],
  ['authentication_error', 'auth'],
  ['permission_error', 'auth'],
  // Groq, with 400 (crewAIInc/crewAI#783).
  ['organization_restricted', 'auth'],
  ['model_not_found', 'model_unavailable'],
  ['model_decommissioned', 'model_unavailable'],
  // Groq: terms that the organisation has not accepted, with 400, and models that it has blocked, with 403.
  ['model_terms_required', 'model_unavailable'],
  ['model_permission_blocked_org', 'model_unavailable'],
  ['model_permission_blocked_project', 'model_unavailable'],
  // Azure: a deployment that is not there, or is of a model without this route.
  ['DeploymentNotFound', 'model_unavailable'],
  ['OperationNotSupported', 'model_unavailable'],
  // As Azure spells it for sessions (learn.microsoft.com/en-us/answers/a/12820829).
  ['OpperationNotSupported', 'model_unavailable'],
  ['rate_limit_exceeded', 'rate_limited'],
  ['rate_limit_error', 'rate_limited'],
  ['provider_overloaded', 'overloaded'],
  ['overloaded', 'overloaded'],
  ['overloaded_error', 'overloaded'],
])

/**
 * Meanings of a `type` that say more than the status, where there is no code: Moonshot's (anomalyco/opencode#25458,
 * MoonshotAI/kimi-cli#1002); OpenAI's of a 429 (Chanzhaoyu/chatgpt-web#1273, ayaka14732/ChatGPTAPIFree#38).
 */
const byType = new Map<string, FailureReason>([
  ['exceeded_current_quota_error', 'quota'],
  ['billing_not_active', 'quota'],
  ['access_terminated', 'auth'],
  ['content_filter', 'content_filter'],
])

/** Meanings of the codes of errors that have no status, inside a stream or an answer, by their words. */
const codeWords: readonly [RegExp, FailureReason][] = [
  [/_policy|^policy_/i, 'content_filter'],
  [/rate_?limit|too_?many_?requests|throttl/i, 'rate_limited'],
  [/overload|capacity|unavailable/i, 'overloaded'],
  [/server_?error|internal|timeout|timed_out|^api_error$|upstream|generation_failed/i, 'server_error'],
  [/access_?denied|expired_?token|unauthori[sz]ed|forbidden/i, 'auth'],
  [/^(?:invalid|unsupported|missing|unknown|empty|image|failed_to_download|string|array|integer)_/i, 'invalid_request'],
  [/^bad_?request|validation_?e|unprocessable/i, 'invalid_request'],
]

const maxMessage = 1000
/** Statuses that servers use for a prompt that is too long, or for a call that the model wrote wrongly (Bedrock: 424). */
const mayBeOfPrompt: ReadonlySet<number | null> = new Set([null, 400, 413, 422, 424, 500])
/** A text that is longer than a field may be is one of the prompt only here; elsewhere it is a name, an id or a key. */
const promptField = /^(?:input|prompt)$|^(?:messages|input)[.[].*(?:content|text)/

/** Classifies a response outside 2xx (tables of OpenAI's and OpenRouter's error codes). */
export function failure(status: number, headers: Headers, body: string): ProviderError {
  return errorFrom(readFault(parseJsonOrText(body)), status, retryAfterMs(headers))
}

/** Classifies an error object inside a stream or inside a response with status 200. */
export function reportedFailure(json: Json): ProviderError {
  return errorFrom(readFault(json), null, null)
}

function errorFrom(fault: Fault, ownStatus: number | null, delayMs: number | null): ProviderError {
  const status = ownStatus ?? fault.httpCode
  const isOfPrompt = mayBeOfPrompt.has(status)
  const modelFault = isOfPrompt ? modelFaultOf(fault.codes, fault.message, fault.generation) : null
  const reason = modelFault ? 'model_fault' : reasonOf(fault, ownStatus, isOfPrompt)
  const text = redactProviderMessage(fault.message).slice(0, maxMessage)
  const fallback = status ? `The provider answered with status ${status}.` : 'The provider reported an error.'
  const waitMs = delayMs ?? (reason === 'rate_limited' ? statedDelayMs(fault) : null)
  return new ProviderError(reason, fixedMessages[reason] ?? (text || fallback), {
    ...(status && { status }),
    ...(waitMs !== null && { retryAfterMs: waitMs }),
    ...(fault.param !== null && { param: fault.param }),
    ...(modelFault && { modelFault }),
  })
}

/** A refusal of a proxy's account at the server behind it is not about ours: another target may serve the request. */
function reasonOf(fault: Fault, status: number | null, isOfPrompt: boolean): FailureReason {
  const reason = statedReasonOf(fault, status, isOfPrompt)
  return fault.relayed && (reason === 'auth' || reason === 'quota') ? 'model_unavailable' : reason
}

function statedReasonOf(fault: Fault, status: number | null, isOfPrompt: boolean): FailureReason {
  const { codes, type, message, param, httpCode } = fault
  if (fault.moderated) return 'content_filter'
  const byName =
    known(codes) ??
    (status === null ? byCode.get(type) : undefined) ??
    byType.get(type) ??
    reasonBesideStatus(status ?? httpCode, message)
  if (byName) return byName
  const isTooLong = codes.includes('string_above_max_length') && promptField.test(param ?? '')
  if (status !== null && status < 500 && isAbsentModel(message)) return 'model_unavailable'
  if (isTooLong || (isOfPrompt && isContextOverflow(message))) return 'context_length'
  // Inside a stream the code says what happened; the type is often the same for every error.
  if (status === null)
    return wordsOf(codes) ?? ofStatus(httpCode) ?? byCode.get(type) ?? wordsOf([type]) ?? 'server_error'
  return ofStatus(status) ?? 'invalid_response'
}

function known(codes: readonly string[]): FailureReason | undefined {
  for (const code of codes) {
    const reason = byCode.get(code)
    if (reason) return reason
  }
  return undefined
}

function wordsOf(codes: readonly string[]): FailureReason | undefined {
  for (const code of codes) {
    const found = codeWords.find(([words]) => words.test(code))
    if (found) return found[1]
  }
  return undefined
}

function ofStatus(status: number | null): FailureReason | undefined {
  return status === null || status < 400 ? undefined : reasonOfStatus(status)
}

/**
 * The delay that a rate limit without a header states: in its words, as OpenAI's do inside a stream, or by the time at which OpenRouter's own
 * limit ends (Gitlawb/openclaude#936, Avarok-Cybersecurity/atlas#543). Null if there is none.
 */
function statedDelayMs({ message, resetsAtMs }: Fault): number | null {
  return resetsAtMs === null ? delayInWordsMs(message) : delayUntilMs(resetsAtMs)
}

/** An error as a server reports it, before it is classified. */
type Fault = {
  message: string
  /** What identifies the error, the most specific first: OpenRouter's `error_type`, then `code`. */
  codes: readonly string[]
  /** The class of the error; less specific than its codes. */
  type: string
  /** An HTTP status in the body, of servers that report errors inside a stream or a 200. */
  httpCode: number | null
  moderated: boolean
  /** Whether it is of a server behind the one that was called (OpenRouterTeam/ai-sdk-provider#24). */
  relayed: boolean
  param: string | null
  /** When a rate limit ends, in Unix time (OpenRouter). */
  resetsAtMs: number | null
  /** What the model wrote, where that is at fault (Groq). */
  generation: unknown
}

/** Reads `{error:{…}}`, `{error:"…"}`, `{message,type,code}` and `{detail:…}`, alone or in an array, or plain text. */
function readFault(body: unknown): Fault {
  const text = readErrorText(body)
  const outer = Array.isArray(body) ? body[0] : body
  if (!isObject(outer))
    return {
      ...text,
      codes: [],
      type: '',
      httpCode: null,
      moderated: false,
      relayed: false,
      resetsAtMs: null,
      generation: null,
    }
  const error: Json = isObject(outer.error) ? outer.error : outer
  const metadata = isObject(error.metadata) ? error.metadata : {}
  return {
    ...text,
    codes: [metadata.error_type, error.code].filter(code => typeof code === 'string' && code !== ''),
    type: typeof error.type === 'string' ? error.type : typeof error.__type === 'string' ? error.__type : '',
    httpCode: statusIn(error) ?? statusIn(outer),
    // OpenRouter reports a prompt flagged by moderation as 403 with the reasons.
    moderated: Array.isArray(metadata.reasons) || metadata.flagged_input !== undefined,
    relayed: typeof metadata.provider_name === 'string' && metadata.raw !== undefined,
    resetsAtMs: resetIn(metadata.headers),
    generation: error.failed_generation,
  } as Fault
}

function resetIn(headers: unknown): number | null {
  const reset = isObject(headers) ? Number(headers['X-RateLimit-Reset']) : Number.NaN
  // In milliseconds, as OpenRouter has it.
  return Number.isInteger(reset) && reset > 1e12 ? reset : null
}

function statusIn({ code, status_code, status }: Json): number | null {
  const found = [code, status_code, status]
    .map(value => (isObject(value) || Array.isArray(value) ? Number.NaN : Number(value)))
    .find(number => Number.isInteger(number) && number >= 400 && number < 600)
  return found ?? null
}
