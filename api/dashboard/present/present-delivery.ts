import type { WebhookAttempt, WebhookDelivery } from '../../../shared/generated/prisma/client.ts'
import { attemptsPerRound } from '../../../shared/webhooks/schedule.ts'
import type { Delivery, DeliveryAttempt } from '../wire/webhooks.ts'

/** A delivery of one event. */
export function presentDelivery(row: WebhookDelivery): Delivery {
  return {
    id: row.id,
    type: row.type,
    url: row.url,
    endpoint_id: row.endpointId,
    status: row.status,
    attempts: row.attempts,
    max_attempts: (Math.floor(row.attempts / attemptsPerRound) + 1) * attemptsPerRound,
    job_id: row.jobId,
    batch_id: row.batchId,
    created_at: row.createdAt.toISOString(),
    next_attempt_at: row.status === 'pending' ? row.nextAttemptAt.toISOString() : null,
    delivered_at: row.deliveredAt?.toISOString() ?? null,
  }
}

/** One attempt of a delivery. */
export function presentAttempt({
  number,
  at,
  durationMs,
  headers,
  body,
  status,
  error,
  response,
}: WebhookAttempt): DeliveryAttempt {
  return {
    number,
    at: at.toISOString(),
    duration_ms: durationMs,
    request: headers === null || body === null ? null : { headers: headers as Record<string, string>, body },
    status,
    error,
    response,
  }
}
