/** Types and the events, shared by the page of webhooks and its routes. */

export { eventTypes } from '../../../shared/webhooks/events.ts'

type DeliveryStatus = 'pending' | 'delivered' | 'failed'

/** The delivery of one event. */
export type Delivery = {
  id: string
  /** "job.completed" */
  type: string
  url: string
  /** Null if only a job, a batch or the alert settings named the URL. */
  endpoint_id: string | null
  status: DeliveryStatus
  attempts: number
  /** After this many attempts without success it fails. */
  max_attempts: number
  /** The job or the batch it is about; both null for other events. */
  job_id: string | null
  batch_id: string | null
  created_at: string
  /** Time of the next attempt while it is pending. */
  next_attempt_at: string | null
  delivered_at: string | null
}

/** One attempt: the posted request, and its outcome. */
export type DeliveryAttempt = {
  number: number
  at: string
  duration_ms: number
  /** Null for attempts made before requests were recorded. The signature is shortened, the body truncated to 16 kB. */
  request: { headers: Record<string, string>; body: string } | null
  /** The receiver's HTTP status; null if there was no response. */
  status: number | null
  error: string | null
  /** The first 1 kB of the response. */
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
  /** Until when the previous secret signs as well; null if it does not. */
  previous_valid_until: string | null
}
