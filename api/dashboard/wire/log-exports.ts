/** Types shared by the page of log exports and its routes. */

type ExportStreamName = 'requests' | 'audit' | 'content'
export type ExportKind = 'https' | 'otlp' | 's3'

/** How far a stream is delivered. */
export type ExportStreamState = {
  stream: ExportStreamName
  delivered_through: string
  lag_s: number
  batches: number
  rows: number
  last_delivered_at: string | null
  attempts: number
  failing_since: string | null
  next_attempt_at: string | null
  last_error: string | null
  last_error_at: string | null
  gaps: { from: string; to: string; reason: 'retention' | 'transactions_restarted'; noticed_at: string }[]
}

export type ExportReplay = {
  id: string
  stream: ExportStreamName
  from: string
  to: string
  status: 'running' | 'completed' | 'failed' | 'cancelled'
  progress: number
  batches: number
  rows: number
  attempts: number
  last_error: string | null
  created_at: string
  ended_at: string | null
}

/** An export, as the API shows it. */
export type DashboardExport = {
  id: string
  name: string
  kind: ExportKind
  url: string | null
  bucket: string | null
  region: string | null
  prefix: string | null
  path_style: boolean
  access_key_id: string | null
  headers: string[]
  format: 'ndjson' | 'json' | 'protobuf'
  gzip: boolean
  streams: ExportStreamName[]
  environment: 'live' | 'test' | null
  interval_s: number
  enabled: boolean
  status: 'active' | 'failing' | 'disabled' | 'paused'
  previous_secret_valid_until: string | null
  state: ExportStreamState[]
  replays: ExportReplay[]
  created_at: string
}

/** GET …/log-exports */
export type ExportsAnswer = { data: DashboardExport[] }
/** GET, PATCH …/log-exports/{export} */
export type ExportAnswer = { data: DashboardExport }
/** POST …/log-exports and …/roll-secret: the secret is shown only once; null where nothing is signed. */
export type ExportSecretAnswer = { data: DashboardExport; secret: string | null }
/** POST …/log-exports/{export}/test */
export type ExportTestAnswer = {
  delivered: boolean
  status: number | null
  error: string | null
  response: string | null
}
/** POST …/log-exports/{export}/replays */
export type ReplaysAnswer = { data: ExportReplay[] }
/** POST …/replays/{replay}/cancel */
export type ReplayAnswer = { data: ExportReplay }

/** The fields of an export's form, in the API's format. */
export type ExportFields = Record<string, unknown>
