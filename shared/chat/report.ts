import type { Policy } from '../keys/policy.ts'
import type { Target } from '../providers/contract.ts'
import type { Ticket } from '../wallet/admission.ts'
import { rateHeaders } from '../wallet/rates.ts'
import type { RoutingRecord } from '../wallet/routing-record.ts'
import type { UsageEvent } from '../wallet/usage-event.ts'
import type { Bill } from './bill.ts'

/** What the request log tells of a finished run. */
export type Report = {
  generationId: string
  model: string
  provider: string | null
  mode: string
  attempts: number
  status: number
  errorCode: string | null
  costNano: number
}

/** How a run ended, whether it has a bill or not. */
export type Ended = Omit<Bill, 'shownUsage'>

type Ran = {
  id: string
  kind: string
  requestId: string
  stream: boolean
  policy: Policy
  mode: string
  model: string
  provider: string | null
  attempts: number
  startedMs: number
  firstByteMs: number | null
  durationMs: number
  routing: RoutingRecord | null
}

export function reportOf({ id, model, provider, mode, attempts }: Ran, { status, errorCode, costNano }: Ended): Report {
  return { generationId: id, model, provider, mode, attempts, status, errorCode, costNano }
}

/** The entry of a finished run in the usage stream. */
export function usageEvent(ran: Ran, ticket: Ticket, ended: Ended): UsageEvent {
  const { policy } = ran
  const { usage } = ended
  const event: UsageEvent = {
    id: ran.id,
    at: ran.startedMs,
    org: policy.organisationId,
    key: policy.keyId,
    month: ticket.month,
    environment: policy.environment,
    requestId: ran.requestId,
    upstreamId: ended.upstreamId,
    kind: ran.kind,
    model: ran.model,
    provider: ran.provider,
    mode: ran.mode,
    status: ended.status,
    errorCode: ended.errorCode,
    finishReason: ended.finishReason,
    streamed: ran.stream,
    attempts: ran.attempts,
    promptTokens: usage.prompt_tokens,
    completionTokens: usage.completion_tokens,
    cachedTokens: usage.prompt_tokens_details?.cached_tokens ?? 0,
    reasoningTokens: usage.completion_tokens_details?.reasoning_tokens ?? 0,
    estimated: usage.estimated === true,
    cost: ended.costNano,
    cap: policy.capNano,
    firstByteMs: ran.firstByteMs,
    durationMs: ran.durationMs,
  }
  const excess = excessNano(ticket, ended.costNano)
  if (excess > 0) event.excess = excess
  if (ended.waiver) event.waiver = ended.waiver
  if (ran.routing) event.routing = ran.routing
  return event
}

/** What of a cost the reservations of its request do not cover, in nano-dollars. */
function excessNano({ spender, reservedNano, extraNano = 0 }: Ticket, costNano: number): number {
  return spender.spendsMoney ? Math.max(0, costNano - reservedNano - extraNano) : 0
}

type Served = {
  id: string
  target: Target
  mode: string
  ticket: Ticket
  attempts: number
  test: boolean
  dropped?: readonly string[]
  /** What the provider calls the model in its answer; null where it does not say. */
  upstreamModel?: string | null
}

const maxNamedFields = 20
/** The names are the caller's own: whatever is none of a field is not written into a header. */
const fieldName = /^[\w.-]{1,100}$/

/** The headers of every response that used a model (contract §1), but for its cost. */
export function answerHeaders({
  id,
  target,
  mode,
  ticket,
  attempts,
  test,
  dropped = [],
  upstreamModel = null,
}: Served): Record<string, string> {
  const headers = rateHeaders(ticket.rates)
  headers['x-generation-id'] = id
  headers['x-gateway-model'] = target.model.id
  const named = isHeaderValue(upstreamModel) ? upstreamModel : target.deployment.upstream_model
  if (isHeaderValue(named)) headers['x-gateway-upstream-model'] = named
  headers['x-gateway-provider'] = target.provider.name
  headers['x-gateway-mode'] = mode
  headers['x-gateway-attempts'] = String(attempts)
  // Without a cap the limit is only our own choice where the caller made none.
  if (ticket.clamped && ticket.spender.capNano !== null)
    headers['x-gateway-max-tokens-clamped'] = String(ticket.outputTokens)
  if (dropped.length > 0) headers['x-gateway-dropped'] = namesOf(dropped)
  if (test) headers['x-sandbox'] = 'true'
  return headers
}

const headerValue = /^[\x21-\x7e]([\x20-\x7e]{0,198}[\x21-\x7e])?$/

/** Providers may say anything. */
function isHeaderValue(name: string | null): name is string {
  return name !== null && headerValue.test(name)
}

/** Field names as a header has them; those that cannot be written there, or are too many, are only counted. */
function namesOf(fields: readonly string[]): string {
  const named = fields.filter(field => fieldName.test(field)).slice(0, maxNamedFields)
  const others = fields.length - named.length
  return [...named, ...(others > 0 ? [`+${others}`] : [])].join(',')
}

/** Nano-dollars as USD in plain decimals, never with an exponent. */
export function decimal(nano: number): string {
  return (nano / 1e9).toFixed(9).replace(/\.?0+$/, '')
}
