/** Types shared by the pages that show or configure logged input and output, and their routes. */

/** Which requests leave their input and output; null = none, or for a key: as the organisation says. */
export type ContentLogging = {
  mode: 'off' | 'errors' | 'all' | 'sample'
  /** The part of requests, in percent, of a sample. */
  sample_percent: number | null
  /** When it ends by itself; null for "off". */
  until: string | null
}

/** GET and PATCH …/content-settings */
export type ContentSettings = {
  /** For keys without a setting of their own. */
  content_logging: ContentLogging | null
  retention_days: number
  redact_emails: boolean
  max_retention_days: number
  /** How far ahead `until` may be. */
  max_logging_days: number
  /** Whether the operator has configured a key that encrypts it. */
  encrypted: boolean
}

/** What is known of a request's logged content without reading it. */
export type ContentFacts = {
  input_bytes: number
  output_bytes: number
  /** Whether only the beginning was kept. */
  input_truncated: boolean
  output_truncated: boolean
  /** Secrets and email addresses that were removed from it. */
  redactions: number
  expires_at: string
  /** Whether it was deleted by a member. */
  deleted: boolean
}

/** GET …/requests/{id}/content */
export type RequestContent = {
  /** The JSON of the request as it was sent. */
  input: string
  /** The JSON of the answer, joined if it was streamed; null if there was none, or it is a file. */
  output: string | null
}
