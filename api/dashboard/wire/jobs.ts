/** What the Jobs page and its routes tell each other. */

export type JobKind = 'video' | 'lipsync' | 'face_swap' | 'avatar' | 'mesh' | 'async'
export type JobStatus = 'queued' | 'in_progress' | 'completed' | 'failed' | 'cancelled' | 'expired'
export type DeliveryStatus = 'pending' | 'delivered' | 'failed'

/** The key that work was submitted with. */
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
  /** Null while it is not known. */
  cost_usd: number | null
  /** Held until the cost is known; 0 where nothing is. */
  held_usd: number
  error: { code: string; message: string } | null
  /** Whether it can be cancelled, and by whoever asks. */
  may_cancel: boolean
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

/** A file that a request referred to; `url` is null once it is deleted. */
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
  /** How often it was begun at a provider. */
  attempts: number
  /** When unfinished work is given up, and when results are deleted. */
  deadline_at: string
  expires_at: string | null
  /** What was asked for, in the words of the API. Long texts are cut. */
  inputs: { field: string; value: string }[]
  references: JobReference[]
  /** The first characters of a delayed request; null once it is over, as it is not kept. */
  request: string | null
  outputs: JobOutput[]
  /** Where the answer of a completed delayed job can be read in full. */
  result_url: string | null
  webhook_url: string | null
  /** Null while there is none: the job is not over, or has no webhook. */
  delivery: WorkDelivery | null
  /** The job as the API returns it; a long result is left out. */
  object: Record<string, unknown>
}
