import type { Generation } from '../generated/prisma/client.ts'
import type { RoutingRecord } from './routing-record.ts'

/**
 * The usage of a session since its last charge. The session is logged as one request, with the figures of its latest part; each
 * part is a separate charge. Tokens and times are cumulative; the cost is that of the part alone.
 */
type SessionPart = { part: number; chargedAt: number }

/**
 * Why a live request that used tokens is not charged, or not in full: it was answered from the cache, it produced no output, its model has no price, or
 * the money ended while it ran (docs/money.md).
 */
export type Waiver = 'cached' | 'nothing_produced' | 'no_price' | 'beyond_reservation' | 'own_key'

/**
 * Signals of a request in its usage event, which are not logged. `prompt`: its key and a checksum of its prompt, by which a
 * retry is recognised. `unusableCalls`: it calls a function with arguments that are not JSON.
 */
export type UsageSignals = { prompt?: string; unusableCalls?: true }

/** A column of the request log: its Postgres type, and how the figures of a session's later part are merged into its row. */
export type LoggedColumn = {
  type: 'text' | 'environment' | 'int' | 'bigint' | 'boolean' | 'jsonb'
  /** `latest`: that of the latest part; `greatest`: the greatest of all parts; else that of the part booked first. */
  merge?: 'latest' | 'greatest'
  /** Events have no such field where there is no value; others have null. */
  optional?: true
}

/**
 * The columns of the request log that a usage event carries under their own name: its type, its booking and the log entry of a
 * job's call derive from this list. A new column is added here, in `schema.prisma` and where its value is known.
 */
export const loggedColumns = {
  requestId: { type: 'text' },
  upstreamId: { type: 'text' },
  kind: { type: 'text' },
  environment: { type: 'environment' },
  model: { type: 'text' },
  provider: { type: 'text' },
  mode: { type: 'text' },
  status: { type: 'int', merge: 'latest' },
  errorCode: { type: 'text', merge: 'latest' },
  /** What the caller of a failed request was told, and the parameter it named. */
  errorMessage: { type: 'text', merge: 'latest', optional: true },
  errorParam: { type: 'text', merge: 'latest', optional: true },
  finishReason: { type: 'text', merge: 'latest' },
  streamed: { type: 'boolean' },
  attempts: { type: 'int' },
  promptTokens: { type: 'int', merge: 'greatest' },
  completionTokens: { type: 'int', merge: 'greatest' },
  cachedTokens: { type: 'int', merge: 'greatest' },
  /** Tokens written to the provider's cache, and those of them written for one hour. */
  cacheWriteTokens: { type: 'int', merge: 'greatest', optional: true },
  cacheWrite1hTokens: { type: 'int', merge: 'greatest', optional: true },
  /** What the provider's cache saved of the charge, or cost beyond; absent where it had no part in it. */
  cacheDiscountNano: { type: 'bigint', merge: 'latest', optional: true },
  reasoningTokens: { type: 'int', merge: 'greatest' },
  /** Searches of the web by the provider's own tool. */
  webSearches: { type: 'int', merge: 'greatest', optional: true },
  /** The service tier that it was served at; absent for the standard one. */
  serviceTier: { type: 'text', optional: true },
  /** Whether the answer was served from the response cache. */
  cached: { type: 'boolean', optional: true },
  estimated: { type: 'boolean' },
  /** Why used tokens are not charged. */
  waiver: { type: 'text', optional: true },
  firstByteMs: { type: 'int' },
  durationMs: { type: 'int', merge: 'greatest' },
  /** Absent for most requests: a single successful call to the requested model. */
  routing: { type: 'jsonb', optional: true },
  /** Settings that the request named, such as `temperature`, and the number of tools; never texts of the prompt. */
  parameters: { type: 'jsonb', optional: true },
  metadata: { type: 'jsonb', optional: true },
  /** The caller's names of its end user and of the conversation. */
  endUser: { type: 'text', optional: true },
  session: { type: 'text', optional: true },
  /** The gateway's own part of the duration; absent if it was not measured. */
  overheadMs: { type: 'int', optional: true },
  /** Parts per million in the charge beyond the provider's price; absent when nothing is charged. */
  marginPpm: { type: 'int', merge: 'greatest', optional: true },
  /** The organisation's own provider key that served it, and what it costs there. */
  providerKeyId: { type: 'text', optional: true },
  upstreamCostNano: { type: 'bigint', merge: 'greatest', optional: true },
} satisfies Partial<Record<keyof Generation, LoggedColumn>>

export type LoggedField = keyof typeof loggedColumns

/** The values of columns that an event has in another type than a row. */
type EventValues = {
  cacheDiscountNano: number
  upstreamCostNano: number
  waiver: Waiver
  routing: RoutingRecord
  parameters: Record<string, string | number | boolean>
  metadata: Record<string, string>
}
type ValueOf<F extends LoggedField> = F extends keyof EventValues ? EventValues[F] : Generation[F]
type OptionalField = {
  [F in LoggedField]: (typeof loggedColumns)[F] extends { optional: true } ? F : never
}[LoggedField]
type LoggedValues = { [F in Exclude<LoggedField, OptionalField>]: ValueOf<F> } & {
  [F in OptionalField]?: NonNullable<ValueOf<F>>
}

/** What the request log keeps of what a request asked for; absent fields were not sent. */
export type RequestFacts = Pick<LoggedValues, 'parameters' | 'metadata' | 'endUser' | 'session'>

/** One finished request, or a part of a session, in the `usage` stream from Redis to Postgres. Money is in nano-dollars. */
export type UsageEvent = Partial<SessionPart> &
  LoggedValues & {
    id: string
    at: number
    org: string
    key: string
    month: string
    /** The budgets whose accounts in Redis it was settled against; absent = none (`budgetIds`). */
    budgets?: string
    cost: number
    /** The part of `cost` above the reservation; absent when there is none. */
    excess?: number
    /** The key's cap when the request was admitted; null = none. */
    cap: number | null
    /** What the request says about the model that `auto` chose; absent for others, and where learning is off. */
    signals?: UsageSignals
  }
