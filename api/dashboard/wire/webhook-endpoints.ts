/** Types shared by the pages of webhook endpoints and their routes. */

/** What happened to the deliveries to a URL in the last 24 hours. */
export type AddressFigures = {
  /** Delivered, failed, and pending after at least one failed attempt. */
  delivered: number
  failed: number
  retrying: number
  /** The 95th percentile of the duration of attempts; null without any. */
  p95_ms: number | null
  last_event_at: string | null
  last_failure: { at: string; status: number | null; text: string } | null
}

/** An endpoint, as the API shows it, with its figures. */
export type DashboardEndpoint = {
  id: string
  url: string
  description: string
  events: string[]
  enabled: boolean
  disabled_for_failures: boolean
  signing_secret: 'own' | 'organisation'
  previous_secret_valid_until: string | null
  created_at: string
  updated_at: string
  figures: AddressFigures
}

/** A URL that is no endpoint: jobs, batches or the alert settings named it. */
export type RequestedAddress = { url: string; figures: AddressFigures }

/** GET …/webhooks/endpoints */
export type EndpointsAnswer = {
  data: DashboardEndpoint[]
  requested: RequestedAddress[]
  /** What endpoints can subscribe to, and the types of which a sample can be sent. */
  patterns: string[]
  types: string[]
}

/** GET, PATCH …/webhooks/endpoints/{endpoint} */
export type EndpointAnswer = { data: DashboardEndpoint; types: string[]; patterns: string[] }

/** POST …/webhooks/endpoints and …/endpoints/{endpoint}/roll-secret: the secret is shown only once; null = the organisation's signs. */
export type EndpointSecretAnswer = { data: DashboardEndpoint; secret: string | null }

/** The fields of an endpoint's form. */
export type EndpointFields = {
  url?: string
  description?: string
  events?: string[]
  enabled?: boolean
  signing_secret?: 'own' | 'organisation'
}

/** POST …/webhooks/resend */
export type ResendAnswer = { resent: number; max: number }

/** POST …/webhooks/endpoints/{endpoint}/verify */
export type VerifyAnswer = {
  /** The signatures of the message, the newest secret's first. */
  signatures: string[]
  /** Which of them the given header has; null if it has none of them or was not given. */
  match: 'current' | 'previous' | null
  /** Whether the timestamp is more than five minutes from now, which verifiers reject. */
  is_old: boolean
}
