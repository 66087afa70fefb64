/** What the page of webhooks and alerts and its routes tell each other. */

export type DeliveryStatus = 'pending' | 'delivered' | 'failed'

/** One event on its way. */
export type Delivery = {
  id: string
  /** "job.completed" */
  type: string
  url: string
  status: DeliveryStatus
  attempts: number
  /** The job or the batch it is about; both null for an event of another kind. */
  job_id: string | null
  batch_id: string | null
  created_at: string
  /** When a pending one is tried next. */
  next_attempt_at: string | null
  delivered_at: string | null
}

/** One attempt: what was posted, and what came of it. */
export type DeliveryAttempt = {
  number: number
  at: string
  duration_ms: number
  /** Null for attempts from before requests were kept. The signature is shortened, the body is its first 16 kB. */
  request: { headers: Record<string, string>; body: string } | null
  /** The receiver's HTTP status; null when there was no answer. */
  status: number | null
  error: string | null
  /** The first 1 kB of the answer. */
  response: string | null
}

/** GET …/webhooks/deliveries */
export type DeliveriesAnswer = { data: Delivery[]; has_more: boolean; last_id: string | null }

/** GET …/webhooks/deliveries/{delivery}: the latest attempts, oldest first. */
export type DeliveryAnswer = { data: Delivery & { log: DeliveryAttempt[] } }

/** POST …/webhooks/deliveries/{delivery}/redeliver and …/webhooks/test */
export type DeliverySentAnswer = { data: Delivery }

/** GET …/webhooks/secret and POST …/webhooks/secret/rotate */
export type WebhookSecretAnswer = {
  secret: string
  /** Until when the secret before it signs as well; null when it does not. */
  previous_valid_until: string | null
}

/** GET and PATCH …/alerts */
export type AlertSettings = {
  /** Null = alerts are not posted anywhere. */
  alert_webhook_url: string | null
  /** A balance below this is alerted; null = never. */
  low_balance_usd: number | null
  /** Who gets alerts by email. */
  email_to: string[]
}
