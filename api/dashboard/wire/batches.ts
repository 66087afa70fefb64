import type { WorkDelivery, WorkKey } from './jobs.ts'

/** Types shared by the Batches page and its routes. */

export type BatchStatus =
  | 'validating'
  | 'failed'
  | 'in_progress'
  | 'finalizing'
  | 'completed'
  | 'expired'
  | 'cancelling'
  | 'cancelled'

export type BatchRow = {
  id: string
  status: BatchStatus
  endpoint: string
  /** Null if the lines name several models. */
  model: string | null
  environment: 'live' | 'test'
  key: WorkKey | null
  total: number
  completed: number
  failed: number
  cost_usd: number
  created_at: string
  /** When it reached a terminal status. */
  ended_at: string | null
  may_cancel: boolean
}

/** GET /dashboard/api/organisations/{organisation}/batches */
export type BatchesPage = { data: BatchRow[]; has_more: boolean; last_id: string | null }

export type BatchFileName = 'input' | 'output' | 'errors'
export type BatchFile = { file: BatchFileName; id: string; filename: string; bytes: number }

/** GET …/batches/{id}, POST …/batches/{id}/cancel. Files are served by …/batches/{id}/files/{file}. */
export type BatchDetail = BatchRow & {
  request_id: string
  /** The provider whose batch API runs it; null if the gateway does. */
  provider: string | null
  in_progress_at: string | null
  finalizing_at: string | null
  cancelling_at: string | null
  deadline_at: string
  /** The files that are not deleted. */
  files: BatchFile[]
  /** Validation errors of a failed batch: the first 100. */
  faults: { code: string; line: number | null; message: string; param: string | null }[]
  input_tokens: number
  output_tokens: number
  webhook_url: string | null
  delivery: WorkDelivery | null
  /** The batch as the API returns it. */
  object: Record<string, unknown>
}

/** GET …/batches/{id}/errors: the first lines of the error file. */
export type BatchErrors = {
  data: { custom_id: string; status: number | null; code: string; message: string }[]
  has_more: boolean
}
