import { dayMs } from '../base/time.ts'
import { audit, operatorActor } from '../io/audit.ts'
import type { Connection } from '../io/db.ts'
import type { Platform } from '../platform.ts'
import { endDeliveries } from '../webhooks/endpoints.ts'
import type { WebhookServices } from '../webhooks/webhook-services.ts'
import { type Condition, reconcileIncidents } from './incidents.ts'
import { raiseAlerts } from './raise.ts'

/** An endpoint is disabled when all its deliveries have failed for this long. */
const failingDays = 5
/** It must also have failed in this time: one without events is left alone. */
const recentMs = dayMs
const perRound = 20

type Failing = { id: string; organisationId: string; url: string; since: Date }

/**
 * Disables endpoints that have only failed for days, and alerts their organisations. Returns how many. An endpoint that is
 * enabled again starts anew.
 */
export async function disableFailingEndpoints(services: WebhookServices): Promise<number> {
  const { db, webhooks, clock } = services
  const nowMs = clock.now()
  const failing = await listFailing(db, nowMs)
  for (const { id, organisationId, url, since } of failing) {
    const deliveryIds = await db.$transaction(async tx => {
      const now = new Date(nowMs)
      const { count } = await tx.webhookEndpoint.updateMany({
        where: { id, enabled: true, enabledAt: { lte: since } },
        data: { enabled: false, disabledForFailures: true, updatedAt: now },
      })
      if (count === 0) return []
      await endDeliveries(tx, [id], now)
      const target = { id, name: url }
      const changes = { enabled: [true, false] } satisfies Record<string, [boolean, boolean]>
      const actor = { ...operatorActor, name: 'webhook deliveries' }
      await audit(tx, { organisationId, actor, action: 'webhook_endpoint.disabled', target, changes })
      const data = { object: 'webhook_endpoint.disabled', id, url, failing_since: since.toISOString() }
      const cause = `endpoint:${id}:${since.getTime()}`
      const alert = { organisationId, cause, type: 'webhook_endpoint.disabled', keyId: null, data } as const
      return (await raiseAlerts(services, tx, [alert])).deliveryIds
    })
    await webhooks.enqueue(deliveryIds)
  }
  return failing.length
}

/** Enabled endpoints whose deliveries have all failed since a time before the limit, and until now. */
function listFailing(db: Connection, nowMs: number): Promise<Failing[]> {
  const cutoff = new Date(nowMs - failingDays * dayMs)
  const recent = new Date(nowMs - recentMs)
  return db.$queryRaw<Failing[]>`
    SELECT e.id, e.organisation_id AS "organisationId", e.url, first_failed.created_at AS since
    FROM webhook_endpoints e
    CROSS JOIN LATERAL (SELECT max(delivered_at) AS at FROM webhook_deliveries d WHERE d.endpoint_id = e.id) delivered
    CROSS JOIN LATERAL (
      SELECT d.created_at FROM webhook_deliveries d
      WHERE d.endpoint_id = e.id AND d.status <> 'delivered' AND d.attempts > 0 AND d.created_at >= e.enabled_at
        AND d.created_at > coalesce(delivered.at, '-infinity')
      ORDER BY d.created_at LIMIT 1) first_failed
    WHERE e.enabled AND e.enabled_at <= ${cutoff} AND first_failed.created_at <= ${cutoff}
      AND EXISTS (
        SELECT 1 FROM webhook_deliveries d
        WHERE d.endpoint_id = e.id AND d.created_at > ${recent} AND d.status <> 'delivered' AND d.attempts > 0)
    ORDER BY e.id LIMIT ${perRound}`
}

const minFailedAttempts = 5
/** Maximum deliveries of an endpoint that are looked at. */
const maxDeliveries = 200
const maxEndpoints = 100

type FailingNow = { id: string; organisationId: string; name: string; url: string; attempts: number; since: Date }

/** Records the webhook endpoints at which every attempt has failed since the last delivery that succeeded, within a day. */
export async function watchEndpoints(services: Platform): Promise<void> {
  const { db, clock } = services
  const recent = new Date(clock.now() - dayMs)
  const failing = await db.$queryRaw<FailingNow[]>`
    SELECT e.id, e.organisation_id AS "organisationId", o.name, e.url, failed.attempts, failed.since
    FROM webhook_endpoints e JOIN organisations o ON o.id = e.organisation_id
    CROSS JOIN LATERAL (
      WITH latest AS MATERIALIZED (
        SELECT d.status, d.attempts, d.created_at, d.delivered_at FROM webhook_deliveries d
        WHERE d.endpoint_id = e.id AND d.created_at >= greatest(${recent}::timestamptz, e.enabled_at)
        ORDER BY d.created_at DESC LIMIT ${maxDeliveries})
      SELECT coalesce(sum(attempts), 0)::int AS attempts, min(created_at) AS since FROM latest
      WHERE status <> 'delivered' AND created_at > coalesce((SELECT max(delivered_at) FROM latest), '-infinity')) failed
    WHERE e.enabled AND failed.attempts >= ${minFailedAttempts}
    ORDER BY failed.attempts DESC, e.id LIMIT ${maxEndpoints}`
  await reconcileIncidents(services, ['webhook'], failing.map(conditionOf))
}

/** Names the host alone: a receiver's URL may contain a secret. */
function conditionOf({ id, organisationId, name, url, attempts, since }: FailingNow): Condition {
  const from = `${since.toISOString().slice(0, 16).replace('T', ' ')} UTC`
  const message = `${attempts} attempts at ${new URL(url).host} failed and none succeeded since ${from} (${name}).`
  return { kind: 'webhook', subject: `${organisationId}|${id}`, message, sinceMs: since.getTime() }
}
