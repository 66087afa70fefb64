import type { RequestCall } from './request-calls.ts'

/** Types shared by the Jobs page and its routes. */

export type JobKind = 'video' | 'lipsync' | 'face_swap' | 'avatar' | 'mesh' | 'async'
export type JobStatus = 'queued' | 'in_progress' | 'completed' | 'failed' | 'cancelled' | 'expired'
type DeliveryStatus = 'pending' | 'delivered' | 'failed'

/** The key that submitted the work. */
export type WorkKey = { id: string; name: string; prefix: string; last4: string }

export type JobRow = {
  id: string
  kind: JobKind
  status: JobStatus
  /** 0–100. */
  progress: number
  model: string
  provider: string | null
  environment: 'live' | 'test'
  key: WorkKey | null
  created_at: string
  started_at: string | null
  completed_at: string | null
  /** Null until it is known. */
  cost_usd: number | null
  /** The amount held until the cost is known; 0 if none. */
  held_usd: number
  error: { code: string; message: string } | null
  /** Whether the viewer can cancel it. */
  may_cancel: boolean
  /** A picture of the result, or its video; null without one, and once the results are deleted. */
  thumbnail: { type: 'image' | 'video'; url: string } | null
}

/** GET /dashboard/api/organisations/{organisation}/jobs */
export type JobsPage = { data: JobRow[]; has_more: boolean; last_id: string | null }

export type JobOutput = {
  type: string
  url: string
  content_type: string
  bytes: number
  duration_s: number | null
}

/** A file that a request referenced; `url` is null once it is deleted. */
export type JobReference = {
  field: string
  filename: string
  content_type: string
  bytes: number
  duration_s: number | null
  url: string | null
}

export type WorkDelivery = { id: string; url: string; status: DeliveryStatus; attempts: number }

/** GET …/jobs/{id}, POST …/jobs/{id}/cancel */
export type JobDetail = JobRow & {
  request_id: string
  /** Number of times it was started at a provider. */
  attempts: number
  /** Calls to providers, if one of them failed. */
  calls: RequestCall[]
  /** When a job that waits for another attempt is tried again. */
  next_attempt_at: string | null
  /** When unfinished work expires, and when results are deleted. */
  deadline_at: string
  expires_at: string | null
  /** The request in the API's field names. Long texts are truncated. */
  inputs: { field: string; value: string }[]
  references: JobReference[]
  /** The first characters of a delayed request; null once the job is over, as the request is deleted then. */
  request: string | null
  outputs: JobOutput[]
  /** URL of the full response of a completed delayed job. */
  result_url: string | null
  webhook_url: string | null
  /** Null if there is none: the job is not over, or has no webhook. */
  delivery: WorkDelivery | null
  /** The job as the API returns it, without a long result. */
  object: Record<string, unknown>
}
