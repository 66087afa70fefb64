import type { GuardRecord } from '../../../shared/wallet/routing-record.ts'
import type { ContentFacts } from './contents.ts'
import type { WorkDelivery, WorkKey } from './jobs.ts'
import type { RequestCall } from './request-calls.ts'

/** Types shared by the Requests page and its routes. */

type Environment = 'live' | 'test'

export type RequestRow = {
  id: string
  created_at: string
  /** "chat", "image", "video" … */
  type: string
  environment: Environment
  /** As it was answered: 202 for a job that is not over, 101 for a session, 499 if the client disconnected. */
  status: number
  error_code: string | null
  model: string
  provider: string | null
  key: WorkKey | null
  streamed: boolean
  /** Number of provider calls. */
  attempts: number
  prompt_tokens: number
  completion_tokens: number
  cost_usd: number
  /** Until the first token; null if it was not streamed. */
  first_byte_ms: number | null
  duration_ms: number
  /** How many refused calls of the same minute the row stands for; otherwise 1. */
  count: number
  /** The caller's ids of its end user and of the conversation. */
  end_user: string | null
  session: string | null
}

/** GET /dashboard/api/organisations/{organisation}/requests */
export type RequestsPage = { data: RequestRow[]; has_more: boolean; last_id: string | null }

/** GET …/request-count: refused calls that share a row are counted one by one. `has_more`: so many were counted, and there may be more. */
export type RequestCount = { requests: number; has_more: boolean }

/** GET …/requests/{id}/neighbours: within a search. */
export type RequestNeighbours = { newer: string | null; older: string | null }

/** GET …/request-filters: the filter choices, and how many requests each finds in the time, together with the other filters. */
export type RequestFilters = { models: string[]; providers: string[]; types: string[]; counts: ChoiceCounts }
export type ChoiceCounts = Record<'model' | 'provider' | 'type' | 'status', Record<string, number>>

/** GET, POST …/request-views, DELETE …/request-views/{name}: the member's saved views; `query` is that of the list's address. */
export type RequestViews = { data: RequestView[] }
export type RequestView = { name: string; query: string }

export type RoutingCandidate = {
  model: string
  provider: string | null
  score: number | null
  quality: number | null
  /** What feedback added to the quality. */
  learned: number
  estimated_cost_usd: number | null
  latency_ms: number | null
  /** Why it was excluded; null for eligible candidates. */
  excluded: string | null
}

/** Tokens of one class and the provider's price for them; margin and discount have no tokens. */
export type CostPart = {
  part: 'input' | 'cached_input' | 'cache_write' | 'cache_write_1h' | 'output' | 'web_search' | 'margin'
  tokens: number | null
  usd_per_million: number | null
  cost_usd: number
}

/** GET …/requests/{id} */
export type RequestDetail = RequestRow & {
  upstream_id: string | null
  request_id: string
  mode: string | null
  finish_reason: string | null
  /** What the caller of a failed request was told, and the parameter it named. */
  error_message: string | null
  error_param: string | null
  /** The gateway's own part of the duration; null if it was not measured. */
  overhead_ms: number | null
  /** Settings that the request named, such as `temperature`, and its number of tools. */
  parameters: Record<string, string | number | boolean> | null
  metadata: Record<string, string> | null
  usage: {
    prompt_tokens: number
    completion_tokens: number
    cached_tokens: number
    cache_write_tokens: number
    /** Those of `cache_write_tokens` written for one hour. */
    cache_write_1h_tokens: number
    reasoning_tokens: number
    /** `standard`, `flex` or `priority`. */
    service_tier: string
    estimated: boolean
  }
  /** What the provider's cache saved of the cost; negative where writing to it cost more. */
  cache_discount_usd: number
  /**
   * What the response cache did: it answered (`hit`), kept the answer (`stored`) or not (`miss`), or was not asked (`bypass`); null
   * where the key has no cache, or it was not logged.
   */
  response_cache: 'hit' | 'stored' | 'miss' | 'bypass' | null
  /** Whether it ran with a provider key of the organisation. */
  is_byok: boolean
  /** That key; null where it is deleted, or none was used. */
  provider_key: { name: string; last4: string } | null
  /** What the call cost at the provider, if it ran with an own key. */
  upstream_inference_cost: number | null
  /** The first calls; empty if no provider was called. */
  calls: RequestCall[]
  /** Null if the request named its model. */
  routing: { reason: string; candidates: RoutingCandidate[] } | null
  /** What guardrails did with its texts; null = they were not checked. */
  guardrails: GuardRecord | null
  /** Null if current prices do not add up to the charge, or nothing was charged. */
  cost_parts: CostPart[] | null
  /** What is known of its logged input and output; null if none was logged, or it has expired. */
  content: ContentFacts | null
  /** The id of its key; null if there is no such key any more. */
  key_id: string | null
  /** The webhook of its job. */
  delivery: WorkDelivery | null
  job_id: string | null
  batch_id: string | null
  /** Scores of the response by keys of the organisation. */
  feedback: RequestFeedback[]
}

/** A score from -1 (bad) to 1 (good). */
export type RequestFeedback = { key: WorkKey | null; score: number; comment: string | null; updated_at: string }
