import type { Generation } from '../generated/prisma/client.ts'
import type { RoutingRecord } from './routing-record.ts'

/**
 * The usage of a session since its last charge. The session is logged as one request, with the figures of its latest part; each
 * part is a separate charge. Tokens and times are cumulative; the cost is that of the part alone.
 */
export type SessionPart = { part: number; chargedAt: number }

/**
 * Why a live request that used tokens is not charged, or not in full: it produced no output (contract §1), its model has
 * no price, or the money ended while it ran.
 */
export type Waiver = 'nothing_produced' | 'no_price' | 'beyond_reservation'

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
  errorMessage: { type: 'text', merge: 'latest' },
  errorParam: { type: 'text', merge: 'latest' },
  finishReason: { type: 'text', merge: 'latest' },
  streamed: { type: 'boolean' },
  attempts: { type: 'int' },
  promptTokens: { type: 'int', merge: 'greatest' },
  completionTokens: { type: 'int', merge: 'greatest' },
  cachedTokens: { type: 'int', merge: 'greatest' },
  cacheWriteTokens: { type: 'int', merge: 'greatest' },
  cacheWrite1hTokens: { type: 'int', merge: 'greatest' },
  cacheDiscountNano: { type: 'bigint', merge: 'latest' },
  reasoningTokens: { type: 'int', merge: 'greatest' },
  webSearches: { type: 'int', merge: 'greatest' },
  estimated: { type: 'boolean' },
  waiver: { type: 'text' },
  firstByteMs: { type: 'int' },
  durationMs: { type: 'int', merge: 'greatest' },
  routing: { type: 'jsonb' },
  parameters: { type: 'jsonb' },
  metadata: { type: 'jsonb' },
  endUser: { type: 'text' },
  session: { type: 'text' },
  overheadMs: { type: 'int' },
  marginPpm: { type: 'int', merge: 'greatest' },
} satisfies Partial<Record<keyof Generation, LoggedColumn>>

export type LoggedField = keyof typeof loggedColumns

/** What the caller of a failed request was told, and the parameter it named; absent otherwise. */
export type ErrorDetails = {
  errorMessage?: string
  errorParam?: string
}

/** What a request asked for, and the gateway's own part of its duration; absent if it was not sent or not measured. */
export type FactsOfRequest = {
  parameters?: Record<string, string | number | boolean>
  metadata?: Record<string, string>
  endUser?: string
  session?: string
  overheadMs?: number
}

/** One finished request, or a part of a session, in the `usage` stream from Redis to Postgres. Money is in nano-dollars. */
export type UsageEvent = Partial<SessionPart> &
  Pick<
    Generation,
    Exclude<
      LoggedField,
      | 'waiver'
      | 'routing'
      | 'cacheWriteTokens'
      | 'cacheWrite1hTokens'
      | 'cacheDiscountNano'
      | 'webSearches'
      | 'marginPpm'
      | keyof ErrorDetails
      | keyof FactsOfRequest
    >
  > &
  ErrorDetails &
  FactsOfRequest & {
    id: string
    at: number
    org: string
    key: string
    month: string
    cost: number
    /** Tokens written to the provider's cache, and those of them written for one hour; absent when there are none. */
    cacheWriteTokens?: number
    cacheWrite1hTokens?: number
    /** What the provider's cache saved of the charge, or cost beyond; absent where it had no part in it. */
    cacheDiscountNano?: number
    /** Searches of the web by the provider's own tool; absent when there are none. */
    webSearches?: number
    /** The part of `cost` above the reservation; absent when there is none. */
    excess?: number
    /** Parts per million in the charge beyond the provider's price; absent when nothing is charged. */
    marginPpm?: number
    /** The key's cap when the request was admitted; null = none. */
    cap: number | null
    /** Why used tokens are not charged; absent otherwise. */
    waiver?: Waiver
    /** What the request says about the model that `auto` chose; absent for others, and where learning is off. */
    signals?: UsageSignals
    /** Absent for most events: a single successful call to the requested model. */
    routing?: RoutingRecord
  }
