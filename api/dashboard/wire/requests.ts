import type { WorkKey } from './jobs.ts'

/** What the Requests page and its routes tell each other. */

export type Environment = 'live' | 'test'

export type RequestRow = {
  id: string
  created_at: string
  /** "chat", "image", "video" … */
  type: string
  environment: Environment
  /** As it was answered: 202 for a job that is not over, 101 for a session, 499 where the client went away. */
  status: number
  error_code: string | null
  model: string
  provider: string | null
  key: WorkKey | null
  streamed: boolean
  /** How many calls to providers it took. */
  attempts: number
  prompt_tokens: number
  completion_tokens: number
  cost_usd: number
  first_byte_ms: number | null
  duration_ms: number
}

/** GET /dashboard/api/organisations/{organisation}/requests */
export type RequestsPage = { data: RequestRow[]; has_more: boolean; last_id: string | null }

/** GET …/request-filters: what there is to choose from. */
export type RequestFilters = { models: string[]; providers: string[]; types: string[] }

export type RoutingCandidate = {
  model: string
  provider: string | null
  score: number | null
  quality: number | null
  estimated_cost_usd: number | null
  latency_ms: number | null
  /** Why it was out; null for those that could serve. */
  excluded: string | null
}

/** A call to a provider: the status it answered with, or what was wrong. */
export type RequestCall = {
  provider: string
  model: string
  status: number | null
  fault: string | null
  duration_ms: number
}

/** Tokens of one class, and what the provider takes for them; the margin, or the discount, has no tokens. */
export type CostPart = {
  part: 'input' | 'cached_input' | 'output' | 'margin'
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
  usage: {
    prompt_tokens: number
    completion_tokens: number
    cached_tokens: number
    reasoning_tokens: number
    estimated: boolean
  }
  /** The first ones; without any where nobody was asked. */
  calls: RequestCall[]
  /** Null where the request named its model. */
  routing: { reason: string; candidates: RoutingCandidate[] } | null
  /** Null where today’s prices do not come to what was charged, or nothing was. */
  cost_parts: CostPart[] | null
  job_id: string | null
  batch_id: string | null
}
