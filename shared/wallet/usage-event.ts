import type { RoutingRecord } from './routing-record.ts'

/**
 * What a session used since its last charge: its request is logged once, with the figures of its latest part, and each part
 * is a charge of its own. The tokens and times are those of the session until now, the cost that of the part alone.
 */
export type SessionPart = { part: number; chargedAt: number }

/** Reasons for which a live request that used tokens is not charged: nothing came of it (contract §1), or its model has no price. */
export type Waiver = 'nothing_produced' | 'no_price'

/** One finished request, or a part of a session, as it travels on the `usage` stream from Redis to Postgres. Money is nano-dollars. */
export type UsageEvent = Partial<SessionPart> & {
  id: string
  at: number
  org: string
  key: string
  month: string
  environment: 'live' | 'test'
  requestId: string
  upstreamId: string | null
  kind: string
  model: string
  provider: string | null
  mode: string | null
  status: number
  errorCode: string | null
  finishReason: string | null
  streamed: boolean
  attempts: number
  promptTokens: number
  completionTokens: number
  cachedTokens: number
  reasoningTokens: number
  estimated: boolean
  cost: number
  /** The part of `cost` that the reservation did not cover; absent where it covered all of it. */
  excess?: number
  /** Why tokens were used and nothing is charged; absent otherwise. */
  waiver?: Waiver
  /** The key's cap when the request was admitted; null = none. */
  cap: number | null
  firstByteMs: number | null
  durationMs: number
  /** Absent where there is nothing to tell: most events are of one call to the model that was named. */
  routing?: RoutingRecord
}
