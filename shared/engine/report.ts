import type { GatewayError } from '../base/errors.ts'
import { redactMessage } from '../base/redact.ts'
import { elapsedMs, type MonotonicMs } from '../base/time.ts'
import { maxTokens, type ShownUsage, type Usage } from '../base/usage.ts'
import type { Policy } from '../keys/policy.ts'
import { toolsOfItems } from '../kinds/responses-tools.ts'
import type { Target } from '../providers/contract.ts'
import type { ProviderError } from '../providers/provider-error.ts'
import { redactCredentials } from '../providers/redact-credentials.ts'
import { cacheDiscountNano, upstreamNano } from '../routing/pricing.ts'
import type { Reservation } from '../wallet/admission.ts'
import { rateHeaders } from '../wallet/reservation.ts'
import { type Candidate, maxAttempts, type RoutedAttempt, type RoutingRecord } from '../wallet/routing-record.ts'
import type { RequestFacts, UsageEvent, UsageSignals, Waiver } from '../wallet/usage-event.ts'
import type { CallTiming, FailedAttempt } from './failures.ts'

/** Summary of a finished run for the request log. */
export type Report = {
  generationId: string
  model: string
  provider: string | null
  mode: string
  attempts: number
  status: number
  errorCode: string | null
  costNano: number
  /** The fields of the request that were not sent. */
  dropped?: string
}

/** Outcome and cost of a run. */
export type Bill = {
  target: Target | null
  usage: Usage
  /** The usage shown to the client, including its cost. */
  shownUsage: ShownUsage
  costNano: number
  waiver?: Waiver | undefined
  /** What a call with an own provider key costs there, unless its tokens tell. */
  upstreamCostNano?: number | undefined
  status: number
  errorCode: string | null
  /** What the client was told, and the parameter it named. */
  errorMessage?: string
  errorParam?: string | null
  finishReason: string | null
  upstreamId: string | null
  /** Whether the answer calls a function with arguments that are not JSON; known for whole answers to `auto`. */
  unusableCalls?: boolean
}

/** Outcome of a run, with or without a bill. */
export type RunOutcome = Omit<Bill, 'shownUsage'>

type FinishedRun = {
  id: string
  kind: string
  requestId: string
  stream: boolean
  policy: Policy
  mode: string
  model: string
  provider: string | null
  attempts: number
  /** When it started, by the wall clock, for the log. */
  startedMs: number
  firstByteMs: number | null
  durationMs: number
  /** Parts per million that are charged beyond the provider's price. */
  marginPpm: bigint
  /** The key of the last call. */
  credentialId?: string | null
  routing: RoutingRecord | null
  signals?: UsageSignals | undefined
  facts?: RequestFacts
  overheadMs?: number | null
  dropped?: readonly string[]
}

/** The summary of a finished run. */
export function reportOf(
  { id, model, provider, mode, attempts, dropped }: FinishedRun,
  { status, errorCode, costNano }: RunOutcome,
): Report {
  const report: Report = { generationId: id, model, provider, mode, attempts, status, errorCode, costNano }
  if (dropped?.length) report.dropped = namesOf(dropped)
  return report
}

/** Builds the usage event of a finished run. */
export function usageEvent(run: FinishedRun, reservation: Reservation, outcome: RunOutcome): UsageEvent {
  const { policy } = run
  const { usage } = outcome
  const event: UsageEvent = {
    id: run.id,
    at: run.startedMs,
    org: policy.organisationId,
    key: policy.keyId,
    month: reservation.month,
    environment: policy.environment,
    requestId: run.requestId,
    upstreamId: outcome.upstreamId,
    kind: run.kind,
    model: run.model,
    provider: run.provider,
    mode: run.mode,
    status: outcome.status,
    errorCode: outcome.errorCode,
    finishReason: outcome.finishReason,
    streamed: run.stream,
    attempts: run.attempts,
    promptTokens: loggedTokens(usage.prompt_tokens),
    completionTokens: loggedTokens(usage.completion_tokens),
    cachedTokens: loggedTokens(usage.prompt_tokens_details?.cached_tokens ?? 0),
    reasoningTokens: loggedTokens(usage.completion_tokens_details?.reasoning_tokens ?? 0),
    estimated: usage.estimated === true,
    cost: outcome.costNano,
    cap: policy.capNano,
    firstByteMs: run.firstByteMs,
    durationMs: run.durationMs,
  }
  const { cache_write_tokens: writes, cache_write_1h_tokens: writes1h } = usage.prompt_tokens_details ?? {}
  if (writes) event.cacheWriteTokens = writes
  if (writes1h) event.cacheWrite1hTokens = writes1h
  const { service_tier: tier } = usage
  if (tier && tier !== 'standard') event.serviceTier = tier
  if (usage.web_searches) event.webSearches = usage.web_searches
  const { target } = outcome
  if (target?.own) addOwnKey(event, run, target, outcome)
  else if (outcome.costNano > 0) {
    event.marginPpm = Number(run.marginPpm)
    const discountNano = target ? cacheDiscountNano(target.deployment, usage, run.marginPpm) : 0
    if (discountNano !== 0) event.cacheDiscountNano = discountNano
  }
  const excess = excessNano(reservation, outcome.costNano)
  if (excess > 0) event.excess = excess
  if (outcome.errorMessage) event.errorMessage = outcome.errorMessage
  if (outcome.errorParam) event.errorParam = outcome.errorParam
  if (outcome.waiver) event.waiver = outcome.waiver
  if (run.signals) event.signals = run.signals
  if (run.routing) event.routing = run.routing
  if (run.overheadMs != null) event.overheadMs = run.overheadMs
  return Object.assign(event, run.facts)
}

/** Adds the own key of a call, and what the call costs at the provider. Its charge has no margin of the operator's. */
function addOwnKey(event: UsageEvent, { credentialId }: FinishedRun, target: Target, outcome: RunOutcome): void {
  event.providerKeyId = credentialId ?? target.own!.connection.credentials[0]!.id
  const costNano = outcome.upstreamCostNano ?? upstreamNano(target, outcome.usage)
  if (costNano > 0) event.upstreamCostNano = costNano
  if (outcome.costNano === 0) event.waiver = 'own_key'
}

/** Tokens as the request log can hold them: a session adds up many requests. */
function loggedTokens(tokens: number): number {
  return Math.min(tokens, maxTokens)
}

/** The part of a run's outcome that its error determines. A message may quote the request. */
export function failureOutcome({ status, code, message, param }: GatewayError) {
  return { status, errorCode: code, errorMessage: redactMessage(message), errorParam: param && redactMessage(param) }
}

/** The part of a cost that exceeds the run's reservations, in nano-dollars. */
function excessNano({ billing, reservedNano, extraNano = 0 }: Reservation, costNano: number): number {
  return billing.spendsMoney ? Math.max(0, costNano - reservedNano - extraNano) : 0
}

/** How a call differs from its request, and what its answer says of it: for the headers of the response. */
export type SentCall = {
  /** Request fields that it omits. */
  dropped: readonly string[]
  /** Request fields that were changed to what the provider accepts. */
  adjusted: readonly string[]
  /** How the answer holds to the format that was asked for: by what, `validated`, `repaired`; none where none is asked for. */
  structured: readonly string[]
  /** Whether it omits reasoning state. */
  reasoningDropped: boolean
  /** Whether it has cache marks of the gateway. */
  cacheMarked: boolean
  /** The types that a file was converted from and to. */
  converted: string | null
  /** The provider's own name of the model; null until, or unless, the provider reports it. */
  upstreamModel: string | null
}

/** A call that is exactly what was requested. */
export const sentAsRequested: Readonly<SentCall> = {
  dropped: [],
  adjusted: [],
  structured: [],
  reasoningDropped: false,
  cacheMarked: false,
  converted: null,
  upstreamModel: null,
}

type AnswerInfo = {
  id: string
  target: Target
  mode: string
  reservation: Reservation
  attempts: number
  test: boolean
}

/** The header by which a caller asks for answers that are checked, and that says how an answer holds to its format. */
export const structuredName = 'x-gateway-structured-output'

const maxNamedFields = 20
/** Field names come from the caller: names that are invalid in a header are not written to it. */
const fieldName = /^[\w.-]{1,100}$/

/** The headers of every response that used a model, except its cost. */
export function answerHeaders(
  { id, target, mode, reservation, attempts, test }: AnswerInfo,
  sent: Readonly<SentCall> = sentAsRequested,
): Record<string, string> {
  const { dropped, adjusted, structured, reasoningDropped, cacheMarked, converted, upstreamModel } = sent
  const headers = rateHeaders(reservation.rates)
  headers['x-generation-id'] = id
  headers['x-gateway-model'] = target.model.id
  const upstreamName = isHeaderValue(upstreamModel) ? upstreamModel : target.deployment.upstream_model
  if (isHeaderValue(upstreamName)) headers['x-gateway-upstream-model'] = upstreamName
  headers['x-gateway-provider'] = target.provider.name
  headers['x-gateway-mode'] = mode
  if (target.own) headers['x-gateway-own-key'] = '1'
  headers['x-gateway-attempts'] = String(attempts)
  // A limit that only the wallet lowered is reported only if the caller set one.
  if (
    reservation.clamped &&
    (reservation.explicit || reservation.billing.capNano !== null || reservation.billing.budgets)
  )
    headers['x-gateway-max-tokens-clamped'] = String(reservation.outputTokens)
  if (dropped.length > 0) headers['x-gateway-dropped'] = namesOf(dropped)
  if (adjusted.length > 0) headers['x-gateway-adjusted'] = namesOf(adjusted)
  if (structured.length > 0) headers[structuredName] = structured.join(', ')
  if (reasoningDropped) headers['x-gateway-reasoning-dropped'] = '1'
  if (cacheMarked) headers['x-gateway-cache-marked'] = '1'
  if (converted !== null) headers['x-gateway-converted'] = converted
  if (test) headers['x-sandbox'] = 'true'
  return headers
}

const headerValue = /^[\x21-\x7e]([\x20-\x7e]{0,198}[\x21-\x7e])?$/

/** Providers may return any string. */
function isHeaderValue(name: string | null): name is string {
  return name !== null && headerValue.test(name)
}

/** Formats field names for a header; invalid or excess names are only counted. */
function namesOf(fields: readonly string[]): string {
  const named = fields.filter(field => fieldName.test(field)).slice(0, maxNamedFields)
  const others = fields.length - named.length
  return others > 0 ? [...named, `+${others}`].join(',') : named.join(',')
}

/** Formats nano-dollars as USD in plain decimals, never with an exponent. */
export function formatUsd(nano: number): string {
  const text = (nano / 1e9).toFixed(9)
  let end = text.length
  while (text.charCodeAt(end - 1) === zero) end--
  return text.slice(0, text.charCodeAt(end - 1) === point ? end - 1 : end)
}

const zero = 0x30
const point = 0x2e

/** What the headers of a request attribute it to, and the version of the preset that it used. */
export type RequestLabels = { user?: string; tags?: Record<string, string>; preset?: string }

/** The settings that are kept, by their name in the body: numbers, booleans and short words. */
const settings = [
  ...['temperature', 'top_p', 'top_k', 'max_tokens', 'max_completion_tokens', 'max_output_tokens', 'n', 'seed'],
  ...['frequency_penalty', 'presence_penalty', 'reasoning_effort', 'verbosity', 'service_tier', 'tool_choice'],
  ...['parallel_tool_calls', 'logprobs', 'top_logprobs', 'truncation', 'background', 'store', 'max_tool_calls'],
  ...['dimensions', 'encoding_format', 'size', 'quality', 'style', 'voice', 'format', 'output_format', 'language'],
  ...['duration', 'aspect_ratio', 'resolution'],
]
/** Settings inside an object of the body: the field of that object. */
const nested = { response_format: 'type', reasoning: 'effort', thinking: 'type' }
/** Lists of which only the length is kept. */
const lists = ['tools', 'models']

/** What is kept of a member of the body: itself, one field of it, or its length. */
type Kept = { name: string; valueOf(value: unknown): unknown }
const keptMembers = new Map<string, Kept>([
  ...settings.map(name => [name, { name, valueOf: (value: unknown) => value }] as const),
  ...Object.entries(nested).map(
    ([name, field]) => [name, { name: `${name}.${field}`, valueOf: (value: unknown) => Object(value)[field] }] as const,
  ),
  ...lists.map(
    name => [name, { name, valueOf: (value: unknown) => (Array.isArray(value) ? value.length : null) }] as const,
  ),
])
/** Members of a body that are read; bodies have a dozen. */
const maxMembers = 500
const maxWordLength = 64
const maxNameLength = 200
const maxMetadata = 16
const maxMetadataLength = 128

type Body = Record<string, unknown>

/**
 * The facts of a validated body. `session`: the conversation that the request names, if any; `labels`: what its headers add,
 * which takes precedence.
 */
export function factsOf(body: object, session: string | null, labels: RequestLabels | null = null): RequestFacts {
  const given = body as Body
  const facts: RequestFacts = {}
  const itemTools = Array.isArray(given.input) ? toolsOfItems(given.input).length : 0
  let parameters = parametersOf(given)
  if (itemTools > 0) parameters = { ...parameters, tools: Number(parameters?.tools ?? 0) + itemTools }
  if (parameters) facts.parameters = parameters
  const metadata = given.metadata
  if (typeof metadata === 'object' && metadata !== null) {
    const kept = metadataOf(metadata as Body)
    if (kept) facts.metadata = kept
  }
  const endUser = given.safety_identifier ?? given.user ?? (metadata as Body | null | undefined)?.user_id
  // Coding agents put an object into `user_id`: the session, which is known by then.
  if (typeof endUser === 'string' && endUser !== '' && !endUser.startsWith('{'))
    facts.endUser = endUser.slice(0, maxNameLength)
  if (labels?.user) facts.endUser = labels.user
  if (labels?.preset) facts.parameters = { preset: labels.preset, ...facts.parameters }
  if (labels?.tags) facts.metadata = { ...facts.metadata, ...labels.tags }
  if (session) facts.session = session.slice(0, maxNameLength)
  return facts
}

/** Reads the members that the body has: looking up all that it may have takes microseconds. */
function parametersOf(body: Body): RequestFacts['parameters'] {
  let parameters: RequestFacts['parameters']
  let members = 0
  for (const member in body) {
    if (members++ === maxMembers) break
    const kept = keptMembers.get(member)
    if (!kept) continue
    const value = kept.valueOf(body[member])
    const isWord = typeof value === 'string' && value.length <= maxWordLength
    if (typeof value === 'number' || typeof value === 'boolean' || isWord) (parameters ??= {})[kept.name] = value
  }
  return parameters
}

function metadataOf(metadata: Body): Record<string, string> | null {
  const kept: Record<string, string> = {}
  let count = 0
  for (const name in metadata) {
    const value = metadata[name]
    if (typeof value !== 'string' || (name === 'user_id' && value.startsWith('{'))) continue
    if (count++ === maxMetadata) break
    kept[name.slice(0, maxWordLength)] = value.slice(0, maxMetadataLength)
  }
  return count > 0 ? kept : null
}

/** The reason for a routing decision; empty when the request named the model. */
export type Explanation = { reason: string; candidates: readonly Candidate[] }

/** The final call of a run, if it ended with one: its duration so far, and its timing. */
type LastCall = CallTiming & { elapsedMs: number }

/**
 * The routing record of a run in the request log; null for a single call to a named model, which needs none. Times of calls
 * count from `fromMs`.
 */
export function routingRecord(
  { reason, candidates }: Partial<Explanation>,
  failedAttempts: readonly FailedAttempt[],
  outcome: Pick<RunOutcome, 'target' | 'status' | 'errorCode'>,
  last: LastCall | null,
  fromMs: MonotonicMs,
): RoutingRecord | null {
  if (!reason && failedAttempts.length === 0) return null
  return {
    ...(reason && { reason, candidates: candidates ?? [] }),
    ...(failedAttempts.length > 0 && {
      attempts: attemptsOf(failedAttempts, outcome, last, fromMs).slice(0, maxAttempts),
    }),
  }
}

function attemptsOf(
  failedAttempts: readonly FailedAttempt[],
  { target, status, errorCode }: Pick<RunOutcome, 'target' | 'status' | 'errorCode'>,
  last: LastCall | null,
  fromMs: MonotonicMs,
): RoutedAttempt[] {
  const attempts: RoutedAttempt[] = failedAttempts.map(({ target, error, durationMs, ...timing }) => ({
    ...targetNames(target),
    status: error.status,
    fault: error.reason,
    durationMs,
    ...placeOf(timing, fromMs),
    ...messageOf(error),
  }))
  if (!target) return attempts
  const call = { status: errorCode ? null : status, fault: errorCode, durationMs: last?.elapsedMs ?? 0 }
  return [...attempts, { ...targetNames(target), ...call, ...(last && placeOf(last, fromMs)) }]
}

function targetNames({ provider, model }: Target): { provider: string; model: string } {
  return { provider: provider.name, model: model.id }
}

function placeOf({ startedMs, pause }: CallTiming, fromMs: MonotonicMs): Pick<RoutedAttempt, 'startedMs' | 'pause'> {
  return { startedMs: Math.max(0, elapsedMs(fromMs, startedMs)), ...(pause && { pause }) }
}

/** What a provider answered to a failed call. Errors about our account there are left out. */
export function messageOf({ reason, message }: ProviderError): Pick<RoutedAttempt, 'message'> {
  if (reason === 'auth' || reason === 'quota' || message === '') return {}
  return { message: redactCredentials(message) }
}
